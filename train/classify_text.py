"""Texts by their classes, with a small BERT; by default, in which of eight languages an emoji's
name is, of emoji that were never seen.

Your own: `--data.train mail.tsv` (text<TAB>label) or a .csv file with columns text and label, or
`--data.train tfds:glue/sst2`. From a run of `bert_text`, with a new head: `--weights runs/bert_text
--optimizer.learning-rate 2e-4`. From a BERT of Hugging Face, a folder with model.safetensors,
vocab.txt and config.json: `--weights bert-base-uncased --optimizer.learning-rate 2e-5
--data.max-length 128 --data.batch-size 32`.

Run:     tfx-transformer train classify_text
         tfx-transformer classify-text runs/classify_text "rotes Herz" "coração vermelho"
Time:    1 minute on 2 CPU cores, beside another run
Result:  91.0 % of 3,058 names
"""

from tfx_transformer.train.recipe import Optimizer
from tfx_transformer.train.text_recipe import (
    ClassifyTextData,
    ClassifyTextRecipe,
    EncoderModel,
)

RECIPE = ClassifyTextRecipe(
    data=ClassifyTextData(
        "embedded:languages", vocab_size=4000, max_length=32, lower_case=True, batch_size=64
    ),
    model=EncoderModel("bert", "bert_tiny"),
    optimizer=Optimizer(
        learning_rate=1e-3,
        schedule="cosine",
        warmup_steps=100,
        beta_2=0.999,
        epsilon=1e-6,
        weight_decay=0.01,
        clip_norm=1.0,
    ),
    steps=1000,
    eval_steps=200,
)
