"""Sets that TFDS has prepared.

Nothing is downloaded: without a network TFDS retries for minutes.
"""

from collections.abc import Sequence

import tensorflow_datasets as tfds
from tqdm import tqdm


def find_builder(name: str, data_dir) -> tfds.core.DatasetBuilder:
    """The builder of "NAME[/CONFIG]", prepared or not.

    Args:
        name: the set, as TFDS names it.
        data_dir: where TFDS keeps its prepared sets; its own default if None.
    """
    try:
        return tfds.builder(name, data_dir=data_dir)
    except tfds.core.DatasetNotFoundError as error:
        raise ValueError(f"unknown TFDS set {name!r}: see tfds.list_builders()") from error


def check_prepared(builder: tfds.core.DatasetBuilder, name: str, data_dir, lazy=False) -> None:
    """Raises with the command that prepares the set if it is not there.

    Args:
        builder: of the set.
        name: of the set.
        data_dir: as in `find_builder`.
        lazy: whether its examples are to be read one by one, as `LazyPictures` does; the files
            that TFDS makes unasked are read from the first example on, all into memory.
    """
    if not builder.data_path.exists():
        where = f", data_dir={str(data_dir)!r}" if data_dir else ""
        where += ", file_format='array_record'" if lazy else ""
        raise FileNotFoundError(
            f"tfds:{name} is not prepared in {builder.data_path}. Prepare it once, with a network:"
            f'\n  python -c "import tensorflow_datasets as tfds; '
            f'tfds.builder({name!r}{where}).download_and_prepare()"'
        )


def class_features(name: str, info: tfds.core.DatasetInfo) -> tuple[str, str]:
    """Which features are the picture and its class."""
    features = info.features if isinstance(info.features, tfds.features.FeaturesDict) else {}
    pictures = [key for key, kind in features.items() if isinstance(kind, tfds.features.Image)]
    labels = [key for key, kind in features.items() if isinstance(kind, tfds.features.ClassLabel)]
    keys = info.supervised_keys or (*pictures, *labels)
    if len(keys) != 2 or keys[0] not in pictures or keys[1] not in labels:
        raise ValueError(
            f"tfds:{name} is no set for classification: it must have one picture and one class"
        )
    return keys


def read_classes(
    builder: tfds.core.DatasetBuilder, split: str, rows: list[int], picture: str, label: str
) -> tuple[Sequence[bytes], list[int]]:
    """Encoded pictures and their classes.

    Args:
        builder: of a set that is prepared.
        split: as the set names it.
        rows: which of its examples, in rising order.
        picture: the feature of that name.
        label: the feature of that name.

    Returns:
        The pictures: a list or, if the files allow it, `LazyPictures`. And as many numbers.
    """
    decoders = {
        key: tfds.decode.SkipDecoding()
        for key, kind in builder.info.features.items()
        if isinstance(kind, tfds.features.Image)
    }
    try:
        source = builder.as_data_source(split, decoders=decoders)
    except NotImplementedError:  # files that can only be read from the first example on
        in_order = tfds.ReadConfig(interleave_cycle_length=1)
        dataset = builder.as_dataset(split=split, decoders=decoders, read_config=in_order)
        wanted = set(rows)
        examples = [
            (example[picture], int(example[label]))
            for row, example in enumerate(tfds.as_numpy(dataset))
            if row in wanted
        ]
        return [item for item, _ in examples], [number for _, number in examples]
    bar = tqdm(rows, "reading labels", disable=None, leave=False)
    return LazyPictures(source, rows, picture), [int(source[row][label]) for row in bar]


class LazyPictures(Sequence):
    """Some examples' pictures, still encoded, each read when it is asked for.

    Args:
        source: random access to all examples.
        rows: of the examples.
        feature: the picture's name in an example.
    """

    def __init__(self, source: Sequence[dict], rows: list[int], feature: str):
        self.source, self.rows, self.feature = source, rows, feature

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return LazyPictures(self.source, self.rows[index], self.feature)
        return self.source[self.rows[index]][self.feature]
