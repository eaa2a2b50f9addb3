"""Images that are read on access, against the same images in memory."""

import io

import numpy as np
import pytest
from PIL import Image

from tfx_transformer.data.images import sources
from tfx_transformer.data.images.batches import ImageBatches
from tfx_transformer.data.images.sources import load_images
from tfx_transformer.data.images.stored import ImageFiles
from tfx_transformer.data.share import Share
from tfx_transformer.data.splits import SPLITS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """PNG, palette and GIF files of two classes, and a broken one."""
    top, rng = tmp_path_factory.mktemp("images"), np.random.default_rng(0)
    for i in range(50):
        image = Image.fromarray(rng.integers(0, 256, (6, 7, 3), "uint8"))
        file, kind = io.BytesIO(), ("png", "gif")[i % 5 == 0]
        (image.quantize(9) if i % 3 else image).save(file, kind)
        path = top / ("cat", "개")[i % 2] / f"{i}.{kind}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(file.getvalue())
    (top / "cat/broken.png").write_bytes(b"no image")
    return top


@pytest.fixture
def load(folder, tmp_path, monkeypatch):
    """Loads a split that is read on access."""
    monkeypatch.setattr(sources, "IN_MEMORY", 0)
    return lambda split="train": load_images(folder, split, cache=tmp_path)


@pytest.mark.parametrize("split", SPLITS)
def test_images_of_files_are_those_in_memory(folder, load, split):
    expected, found = load_images(folder, split), load(split)
    assert isinstance(found.items, ImageFiles) and isinstance(expected.items, list)
    assert list(found.items) == expected.items
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert (str(found), found.class_names) == (str(expected), expected.class_names)
    assert found.skipped == expected.skipped
    rows = [2, 0, 1]
    assert found.items.take(rows) == [expected.items[row] for row in rows]
    assert list(found.items[1::2]) == expected.items[1::2]


def test_files_are_checked_once_and_again_if_one_changes(folder, load, tmp_path, monkeypatch):
    load()

    def fail(*_):
        raise AssertionError("files are checked again")

    monkeypatch.setattr(sources, "check_images", fail)
    assert len(load()) > 20
    before = sorted(tmp_path.glob("*/*"))
    (folder / "cat/more.txt").write_text("")
    with pytest.raises(AssertionError, match="checked again"):
        load()
    (folder / "cat/more.txt").unlink()
    assert sorted(tmp_path.glob("*/*")) == before  # nothing is left of what failed


def test_each_worker_reads_its_images_of_the_same_batches(folder, load, monkeypatch):
    def batches(images, share):
        data = ImageBatches(images, 4, batch_size=8, seed=3)
        data.divide(share)
        return [(list(x[0]), x[1].tolist()) for x in data.batch_arrays(1, 2)]

    expected, images, read = batches(load_images(folder), Share()), load(), []
    take = ImageFiles.take
    monkeypatch.setattr(ImageFiles, "take", lambda self, x: read.append(len(x)) or take(self, x))
    parts = [batches(images, Share(index, 2, 2)) for index in range(2)]
    assert set(read) == {4}
    for one, first, second in zip(expected, *parts, strict=True):
        rows = [sorted(zip(*x, strict=True)) for x in (one, map(list.__add__, first, second))]
        assert rows[0] == rows[1]
