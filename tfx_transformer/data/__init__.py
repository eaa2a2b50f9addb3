"""Data sources, tokenizers and batches `(inputs, targets, weights)` for Keras.

Names are imported on first use, so that light submodules do not import TensorFlow.
"""

import importlib

_NAMES = {
    "captions.batches": ("CaptionBatches",),
    "captions.scene_check": ("check_scene", "judge_scene"),
    "captions.scenes": ("make_scenes",),
    "captions.sources": ("Captions", "load_captions"),
    "captions.token_batches": ("TextImageBatches",),
    "images.options": ("Augmentation",),
    "images.batches": ("ImageBatches",),
    "images.sources": ("Images", "load_images"),
    "text.labeled": ("Labeled", "load_labeled"),
    "text.labeled_batches": ("LabeledBatches",),
    "text.language": ("LanguageBatches", "language_tokenizer", "load_text"),
    "text.masking": ("MaskedBatches",),
    "text.pair_batches": ("PairBatches", "append_end", "shift"),
    "text.pairs": ("Pairs", "load_pairs"),
    "text.stories": ("Stories", "load_stories"),
    "text.story_batches": ("StoryBatches",),
    "text.story_world": ("Question",),
    "text.tokenizer": ("END", "PAD", "START", "UNK", "Tokenizer", "train_tokenizer"),
    "text.wordpiece": ("WordPiece",),
    "text.words": ("Words",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__():
    return __all__
