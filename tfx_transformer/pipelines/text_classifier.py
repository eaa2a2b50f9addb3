"""TextClassifier: a model and its tokenizer as one function from strings to class names."""

import tensorflow as tf

from tfx_transformer.checks import check_positive
from tfx_transformer.data.text.labeled_batches import add_ends, encode_rows
from tfx_transformer.pipelines.base import Pipeline, Prediction
from tfx_transformer.pipelines.classifier import check_class_names, top_classes
from tfx_transformer.pipelines.decode import add_missing_column, known_ids
from tfx_transformer.runtime import graph


class TextClassifier(Pipeline):
    """Classifies strings: `classifier("a great film")` → {"positive": 0.9, …}.

    Args:
        model: {"tokens": (B, T)} → logits (B, C); has `num_classes` and `max_length`.
        tokenizer: a `Tokenizer` or a `WordPiece`.
        class_names: C names.
        max_length: longer texts are truncated, in tokens with START and END; the model's if None.
        top_k: number of classes to return, at most C.
    """

    kind = "text_classifier"
    result = Prediction

    def __init__(self, model, tokenizer, class_names, max_length=None, top_k=5):
        super().__init__()
        max_length = model.max_length if max_length is None else max_length
        check_positive(top_k=top_k, max_length=max_length)
        if not 3 <= max_length <= model.max_length:
            raise ValueError(f"max_length must lie in 3 … {model.max_length}; got {max_length=}")
        check_class_names(class_names, model)
        self.model, self.tokenizer, self.class_names = model, tokenizer, list(class_names)
        self.max_length, self.top_k = max_length, min(top_k, len(class_names))
        text = tf.TensorSpec([None], tf.string, name="text")
        tokens = tf.TensorSpec([None, None], tf.int32, name="tokens")
        self.read = graph(lambda text: encode_rows(tokenizer, text, max_length), text)
        self.logits = graph(lambda tokens: model({"tokens": tokens}, training=False), tokens)
        self.predict_ids = graph(
            lambda tokens: self._top_classes(known_ids(tokens, tokenizer)), tokens
        )
        self.predict = graph(self._classify, text)

    def signatures(self):
        # "ids" takes token ids with START and END, padded with 0; others are unknown tokens
        return {"serving_default": self.predict, "ids": self.predict_ids}

    def _top_classes(self, tokens):
        logits = self.logits(add_missing_column(tokens))
        return top_classes(logits, self.class_names, self.top_k)

    def _classify(self, text):
        ids = self.tokenizer.encode(text)
        tokens = add_ends(self.tokenizer, ids, self.max_length)
        return self._top_classes(tokens) | {"truncated": ids.row_lengths() > self.max_length - 2}
