"""A model with all that stands between a text and the name of its class."""

import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.classifier import check_names, name_classes
from tfx_transformer.data.labelled_batches import encode_rows
from tfx_transformer.graph import graph


class TextClassifier(tf.Module):
    """Strings → names of their classes.

    `classify` (strings) and `predict` (token ids) are graphs, which `export_text_classifier`
    writes; their outputs are called as those of `Classifier`.

    Args:
        model: {"tokens": (B, T)} → logits (B, C); has `num_classes` and `max_length`.
        tokenizer: a `Tokenizer` or a `WordPiece`.
        class_names: C of them.
        max_length: where a text is cut, in tokens with START and END; the model's if None.
        top_k: how many classes are named, at most C.
    """

    def __init__(self, model, tokenizer, class_names, max_length=None, top_k=5):
        super().__init__()
        max_length = model.max_length if max_length is None else max_length
        check_positive(top_k=top_k, max_length=max_length)
        if not 3 <= max_length <= model.max_length:
            raise ValueError(f"max_length must lie in 3 … {model.max_length}; got {max_length=}")
        check_names(class_names, model)
        self.model, self.tokenizer, self.class_names = model, tokenizer, list(class_names)
        self.max_length, self.top_k = max_length, min(top_k, len(class_names))
        text = tf.TensorSpec([None], tf.string, name="text")
        tokens = tf.TensorSpec([None, None], tf.int32, name="tokens")
        self.read = graph(lambda text: encode_rows(tokenizer, text, max_length), text)
        self.logits = graph(lambda tokens: model({"tokens": tokens}, training=False), tokens)
        self.predict = graph(self._predict, tokens)
        self.classify = graph(lambda text: self.predict(self.read(text)), text)

    def _predict(self, tokens):
        """Ids (B, T) with START and END, padded → the likeliest classes and their shares."""
        return name_classes(self.logits(tokens), self.class_names, self.top_k)
