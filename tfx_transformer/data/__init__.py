"""From raw data to Keras's triples `(inputs, targets, weights)`."""

from tfx_transformer.data.caption_batches import CaptionData, CaptionReport, training_captions
from tfx_transformer.data.captions import Captions, load_captions
from tfx_transformer.data.image_batches import ImageData, training_images
from tfx_transformer.data.images import Images, load_images
from tfx_transformer.data.sources import Pairs, load_pairs
from tfx_transformer.data.text import (
    TextData,
    TextReport,
    append_end,
    encode_source,
    evaluation_data,
    shift,
    training_data,
)
from tfx_transformer.data.tokenizer import END, PAD, START, UNK, Tokenizer, train_tokenizer

__all__ = [
    "END",
    "PAD",
    "START",
    "UNK",
    "CaptionData",
    "CaptionReport",
    "Captions",
    "ImageData",
    "Images",
    "Pairs",
    "TextData",
    "TextReport",
    "Tokenizer",
    "append_end",
    "encode_source",
    "evaluation_data",
    "load_captions",
    "load_images",
    "load_pairs",
    "shift",
    "train_tokenizer",
    "training_captions",
    "training_data",
    "training_images",
]
