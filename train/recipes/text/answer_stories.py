"""Questions about stories, end-to-end memory network; embedded stories: 5.6 % errors.

Six kinds of questions as in bAbI, in a small simulated world: 10,000 of each kind for training,
1,000 of other stories for the test. The tasks of bAbI themselves: `--data.train
tasks_1-20_v1-2/en-10k`, or one file. The learning starts without softmax (`--model.linear-start
True`). The norm of gradients is the paper's 40 for sums over 32 questions; instead of its halved
learning rates there is Adam with a cosine.

Run:     tfx-transformer train answer_stories
         tfx-transformer answer runs/answer_stories "Where is John?" --story story.txt
Time:    8 minutes at 2,200 questions per second on a share of 2 busy CPU cores
Result:  5.6 % errors of 6,000 questions: 0.2 one fact, 3.7 two facts, 21.1 three facts, 3.3 yes or
         no, 3.3 counting, 1.7 lists
"""

from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions
from tfx_transformer.train.tasks.question_answering import (
    QuestionAnsweringData,
    QuestionAnsweringRecipe,
)

RECIPE = QuestionAnsweringRecipe(
    data=QuestionAnsweringData("embedded:stories", batch_size=64),
    model=ModelOptions.of("memory_network", "joint", linear_start=True),
    optimizer=OptimizerOptions(
        learning_rate=5e-3, schedule="cosine", warmup_steps=100, clip_norm=40 / 32
    ),
    steps=16_000,
    steps_per_execution=20,
    eval_steps=500,
)
