"""Drawings of one or two objects from a sentence, DALL·E (0.8 M parameters): not measured.

Run:     tfx-transformer train draw_scenes
         tfx-transformer draw runs/draw_scenes "a green triangle left of a red circle" --count 8
Time:    not measured
Result:  not measured
"""

from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions
from tfx_transformer.train.tasks.image_generation import (
    ImageGenerationData,
    ImageGenerationRecipe,
    ImageTokenizerOptions,
)

RECIPE = ImageGenerationRecipe(
    data=ImageGenerationData(images="embedded:scenes", vocab_size=44, max_length=10, batch_size=16),
    image_tokenizer=ImageTokenizerOptions(codebook_size=128, steps=3000),
    model=ModelOptions.of(
        "dalle", dim=128, depth=4, num_heads=4, mlp_dim=512, masks="full", dropout=0.0
    ),
    optimizer=OptimizerOptions(
        learning_rate=1.5e-3, warmup_steps=300, beta_2=0.99, clip_norm=1.0, ema=0.995
    ),
    decoding=DecodingOptions(kind="sample", temperature=0.9, n_best=4),
    steps=6000,
    eval_steps=500,
)
