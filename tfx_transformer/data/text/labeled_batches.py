"""Batches `(inputs, targets, weights)` of texts for classification.

A row is START x1 … xm END, truncated. Targets are one-hot.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_positive, check_whole
from tfx_transformer.data.buckets import bucket_sizes
from tfx_transformer.data.epochs import BucketedBatches
from tfx_transformer.data.text.tokenizer import PAD


def encode_rows(tokenizer, strings, max_length: int) -> tf.Tensor:
    """Strings (B,) → ids (B, T) with START and END, padded; also in a graph."""
    return add_ends(tokenizer, tokenizer.encode(strings), max_length)


def add_ends(tokenizer, ids: tf.RaggedTensor, max_length: int) -> tf.Tensor:
    """Ids (B, ragged) → the first of them with START and END, (B, max_length or less), padded."""
    ids = ids[:, : max_length - 2]
    ends = [tf.fill([ids.nrows(), 1], id) for id in (tokenizer.start_id, tokenizer.end_id)]
    return tf.concat([ends[0], ids, ends[1]], axis=1).to_tensor(PAD)


class LabeledBatches(BucketedBatches):
    """Shuffled batches of texts of similar length.

    A batch is `({"tokens": (B, T)}, targets (B, C), weights (B,))`, with T one of a few lengths.

    Args:
        texts: N strings.
        labels: N whole numbers below `num_classes`.
        num_classes: C.
        tokenizer: a `Tokenizer` or a `WordPiece`.
        batch_size: smaller if there are fewer texts.
        max_length: maximum number of tokens of a row, START and END included.
        seed: of the order.
    """

    signature = (
        tf.TensorSpec([None, None], tf.int32, name="tokens"),
        tf.TensorSpec([None], tf.int32, name="labels"),
        tf.TensorSpec([None], tf.float32, name="weights"),
    )

    def __init__(
        self,
        texts: Sequence[str],
        labels: Sequence[int] | np.ndarray,
        num_classes: int,
        tokenizer,
        batch_size: int = 32,
        max_length: int = 128,
        seed: int = 0,
    ):
        check_positive(batch_size=batch_size, num_classes=num_classes)
        check_whole(seed=seed)
        if max_length < 3:
            raise ValueError(f"max_length must be 3 or more; got {max_length=}")
        if not len(texts) or len(texts) != len(labels):
            raise ValueError(f"each text must have a label; got {len(texts)} and {len(labels)}")
        start, end, size = tokenizer.start_id, tokenizer.end_id, max_length - 2
        encoded = tokenizer.encode_list(list(texts))
        self.rows = [np.array([start, *ids[:size], end], "int32") for ids in encoded]
        self.labels, self.num_classes = np.asarray(labels, "int32"), num_classes
        sizes = dict.fromkeys(bucket_sizes(max_length, max_length), min(batch_size, len(texts)))
        super().__init__(np.array([len(row) for row in self.rows]), sizes, seed)

    def __str__(self) -> str:
        return (
            f"{len(self.rows):,} texts of {self.num_classes:,} classes, "
            f"{self.lengths.sum():,} tokens in {self.steps_per_epoch:,} batches"
        )

    def batch_arrays(self, epoch, step):
        for batch in self.own_batches(epoch, step):
            rows = batch.filled_rows
            tokens = np.full((len(rows), batch.length), PAD, "int32")
            for i, row in enumerate(rows):
                tokens[i, : self.lengths[row]] = self.rows[row]
            yield tokens, self.labels[rows], batch.is_real.astype("float32")

    def make_batch(self, tokens, labels, weights):
        return {"tokens": tokens}, tf.one_hot(labels, self.num_classes), weights
