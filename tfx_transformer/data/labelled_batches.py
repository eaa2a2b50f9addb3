"""Texts and the numbers of their classes → Keras's triples `(inputs, targets, weights)`.

A row is START x1 … xm END, as in `masking.py`; what does not fit is cut off. Targets are one-hot.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfx_transformer.checks import check_positive, check_whole
from tfx_transformer.data.buckets import EMPTY, bucket_sizes, epoch_batches
from tfx_transformer.data.epochs import EpochData
from tfx_transformer.data.tokenizer import PAD


def encode_rows(tokenizer, strings, max_length: int) -> tf.Tensor:
    """Strings (B,) → ids (B, T) with START and END, padded; in a graph too."""
    ids = tokenizer.encode(strings)[:, : max_length - 2]
    ends = [tf.fill([ids.nrows(), 1], id) for id in (tokenizer.start_id, tokenizer.end_id)]
    return tf.concat([ends[0], ids, ends[1]], axis=1).to_tensor(PAD)


def labelled_data(
    texts: Sequence[str],
    labels: Sequence[int] | np.ndarray,
    num_classes: int,
    tokenizer,
    batch_size: int = 32,
    max_length: int = 128,
    seed: int = 0,
) -> "LabelledData":
    """Shuffled batches, each of texts of like length.

    Args:
        texts: N of them.
        labels: N whole numbers below `num_classes`.
        num_classes: C.
        tokenizer: a `Tokenizer` or a `WordPiece`.
        batch_size: texts in a batch.
        max_length: longest row, START and END included.
        seed: of the order.
    """
    check_positive(batch_size=batch_size, num_classes=num_classes)
    check_whole(seed=seed)
    if max_length < 3:
        raise ValueError(f"max_length must be 3 or more; got {max_length=}")
    if not len(texts) or len(texts) != len(labels):
        raise ValueError(f"each text must have a label; got {len(texts)} and {len(labels)}")
    start, end, room = tokenizer.start_id, tokenizer.end_id, max_length - 2
    rows = [
        np.array([start, *ids[:room], end], "int32") for ids in tokenizer.encode_list(list(texts))
    ]
    return LabelledData(rows, np.asarray(labels), num_classes, batch_size, max_length, seed)


class LabelledData(EpochData):
    """Rows and the order of their batches; made by `labelled_data`.

    A batch is `({"tokens": (B, T)}, targets (B, C), weights (B,))` with T out of few lengths.
    """

    signature = (
        tf.TensorSpec([None, None], tf.int32, name="tokens"),
        tf.TensorSpec([None], tf.int32, name="labels"),
        tf.TensorSpec([None], tf.float32, name="weights"),
    )

    def __init__(self, rows, labels, num_classes: int, batch_size: int, max_length: int, seed: int):
        self.rows, self.labels, self.num_classes, self.seed = rows, labels, num_classes, seed
        lengths = bucket_sizes(max_length, max_length)
        self.sizes = dict.fromkeys(lengths, min(batch_size, len(rows)))
        self.lengths = np.array([len(row) for row in rows])
        self.steps_per_epoch = len(epoch_batches(self.lengths, self.sizes, seed))

    def __str__(self) -> str:
        return (
            f"{len(self.rows):,} texts of {self.num_classes:,} classes, "
            f"{self.lengths.sum():,} tokens in {self.steps_per_epoch:,} batches"
        )

    def orders(self, epoch, step):
        for batch in epoch_batches(self.lengths, self.sizes, self.seed, epoch)[step:]:
            real = batch.rows != EMPTY
            numbers = np.where(real, batch.rows, batch.rows[0])  # with weight 0, instead of nothing
            tokens = np.full((len(numbers), batch.length), PAD, "int32")
            for i, number in enumerate(numbers):
                tokens[i, : self.lengths[number]] = self.rows[number]
            yield tokens, self.labels[numbers].astype("int32"), real.astype("float32")

    def triple(self, tokens, labels, weights):
        return {"tokens": tokens}, tf.one_hot(labels, self.num_classes), weights
