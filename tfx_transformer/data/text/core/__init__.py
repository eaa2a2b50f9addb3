"""SentencePiece by the ops of TensorFlow alone, so that a SavedModel needs no tensorflow-text.

`flat` (the texts of a batch as one vector) → `normalizer` → `unigram` or `bpe` → `sentencepiece`.
"""
