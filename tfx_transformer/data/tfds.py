"""Data sets of TensorFlow Datasets that are already prepared.

Nothing is downloaded: without a network TFDS would retry for minutes.
"""

from collections.abc import Collection, Sequence
from typing import Any

import tensorflow_datasets as tfds

from tfx_transformer.data.splits import SPLIT_NAMES

HIDDEN_TEST = ("glue", "imagenet2012")  # their test splits have no labels


def find_builder(name: str, data_dir) -> tfds.core.DatasetBuilder:
    """The builder of "NAME[/CONFIG]", prepared or not; `data_dir` None is the default of TFDS."""
    try:
        return tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError as error:
        raise ValueError(f"unknown TFDS data set {name!r}: see tfds.list_builders()") from error


def require_prepared(builder: tfds.core.DatasetBuilder, name: str, data_dir, lazy=False) -> None:
    """Raises an error with the command that prepares the data set, if it is not prepared.

    If `lazy`, with the file format that `LazyImages` needs; the default one is read into memory.
    """
    if not builder.data_path.exists():
        options = f", data_dir={str(data_dir)!r}" if data_dir else ""
        options += ", file_format='array_record'" if lazy else ""
        raise FileNotFoundError(
            f"tfds:{name} is not prepared in {builder.data_path}. Prepare it once, with a network:"
            f'\n  python -c "import tensorflow_datasets as tfds; '
            f'tfds.builder({name!r}{options}).download_and_prepare()"'
        )


def stored_splits(builder: tfds.core.DatasetBuilder) -> dict[str, str]:
    """{split: its name in TFDS}; validation serves as test if the labels of test are hidden."""
    if builder.info.name in HIDDEN_TEST:
        return {"train": "train", "test": "validation"}
    return {SPLIT_NAMES[key]: key for key in builder.info.splits if key in SPLIT_NAMES}


def class_features(name: str, info: tfds.core.DatasetInfo, kind: type) -> tuple[str, str]:
    """The names of the input feature, of type `kind`, and of its class label."""
    features = info.features if isinstance(info.features, tfds.features.FeaturesDict) else {}
    inputs = [key for key, feature in features.items() if isinstance(feature, kind)]
    labels = [key for key, x in features.items() if isinstance(x, tfds.features.ClassLabel)]
    keys = info.supervised_keys or (*inputs, *labels)
    if len(keys) != 2 or keys[0] not in inputs or keys[1] not in labels:
        raise ValueError(
            f"tfds:{name} must have one {kind.__name__.lower()} feature and one class label; "
            f"got {', '.join(features) or 'none'}"
        )
    return keys


def read_examples(
    builder: tfds.core.DatasetBuilder,
    split: str,
    features: Sequence[str],
    rows: Collection[int] | None = None,
) -> Sequence[dict] | dict[int, dict]:
    """The examples of a split, named as in TFDS, with images still encoded.

    This is a sequence of all examples, each read on access. If the file format has no random access
    it is {row: example} in memory, with these `features` and `rows` only (None: all rows).
    """
    decoders = {
        key: tfds.decode.SkipDecoding()
        for key, kind in builder.info.features.items()
        if isinstance(kind, tfds.features.Image)
    }
    try:
        return builder.as_data_source(split, decoders=decoders)
    except NotImplementedError:
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        dataset = builder.as_dataset(split=split, decoders=decoders, read_config=in_order)
        return {
            row: {key: example[key] for key in features}
            for row, example in enumerate(tfds.as_numpy(dataset))
            if rows is None or row in rows
        }


class LazyImages(Sequence):
    """Encoded images, the `feature` of some `rows` of a TFDS data set, each read on access."""

    def __init__(self, source: Any, rows: list[int], feature: str):
        self.source, self.rows, self.feature = source, rows, feature

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return LazyImages(self.source, self.rows[index], self.feature)
        return self.source[self.rows[index]][self.feature]

    def take(self, indices: Sequence[int]) -> list[bytes]:
        """Several images by one call of the reader."""
        found = self.source.__getitems__([self.rows[index] for index in indices])
        return [example[self.feature] for example in found]
