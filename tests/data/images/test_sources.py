"""Images by class from folders and zip files, and every error of such a source."""

import hashlib
import json
import os
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.images.files import encode_png
from tfx_transformer.data.images.sources import Images, load_images
from tfx_transformer.data.splits import SPLITS

CIFAR = Path(__file__).parents[4] / "shared/data/cifar10/cifar10.zip"


def image(number):
    """Three pixels that encode the number of the image."""
    return encode_png(np.array([[number // 256, number % 256, 7]], "uint8"))


def number_of(item):
    pixels = tf.io.decode_image(item, channels=3, expand_animations=False).numpy()
    return 256 * int(pixels[0, 0, 0]) + int(pixels[0, 1, 0])


def as_dict(images):
    """{number of the image: name of its class}."""
    names = [images.class_names[label] for label in images.labels]
    return dict(zip(map(number_of, images.items), names, strict=True))


def write(root, folders, first=0):
    """Writes {folder: count} images "0.png" on, numbered from `first` on."""
    for folder, count in folders.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for index in range(count):
            (root / folder / f"{index}.png").write_bytes(image(first))
            first += 1
    return root


def zipped(root, path, outer=""):
    with zipfile.ZipFile(path, "w") as file:
        for source in sorted(root.rglob("*")):
            file.write(source, outer + source.relative_to(root).as_posix())
    return path


def tenth(key):
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % 10


def test_large_classes_are_split_by_the_hash_of_the_path(tmp_path):
    write(tmp_path, {"cat": 100, "Dog": 110})
    expected = {split: {} for split in SPLITS}
    for first, name, count in ((0, "cat", 100), (100, "Dog", 110)):
        for index in range(count):
            split = {0: "test", 1: "validation"}.get(tenth(f"{name}/{index}.png"), "train")
            expected[split][first + index] = name
    for split in SPLITS:
        images = load_images(tmp_path, split)
        assert as_dict(images) == expected[split] and len(images) > 10
        assert images.class_names == ["Dog", "cat"]
        assert images.labels.dtype == np.int32 and not images.skipped


def test_no_image_of_a_large_class_changes_its_split_when_others_are_added(tmp_path):
    write(tmp_path, {"cat": 100, "dog": 100})
    before = {split: as_dict(load_images(tmp_path, split)) for split in SPLITS}
    write(tmp_path, {"ape": 50}, first=500)
    (tmp_path / "cat/another.png").write_bytes(image(900))
    for split in SPLITS:
        assert before[split].items() <= as_dict(load_images(tmp_path, split)).items()


def test_small_classes_are_split_one_by_one(tmp_path):
    """43 images of one class and 11 of another: a fifth of each for validation and for test."""
    write(tmp_path, {"cat": 43, "dog": 8, "ape": 3, "rat": 2})
    parts = {split: as_dict(load_images(tmp_path, split)) for split in SPLITS}
    for split in ("validation", "test"):
        assert Counter(parts[split].values()) == {"cat": 9, "dog": 2, "ape": 1}
    assert Counter(parts["train"].values()) == {"cat": 25, "dog": 4, "ape": 1, "rat": 2}
    assert len(set().union(*parts.values())) == 56


@pytest.mark.parametrize(
    "folders",
    [
        ("train", "val", "test"),
        ("train", "validation", "test"),
        ("Train", "Test"),
        ("train", "val"),
        ("train",),
    ],
)
def test_split_folders_are_kept_and_missing_ones_are_held_out_from_train(tmp_path, folders):
    write(tmp_path, {f"{top}/{name}": 100 for top in folders for name in ("ape", "cat")})
    names = [folder.lower().replace("validation", "val") for folder in folders]
    first = {name: 200 * i for i, name in enumerate(names)}
    loaded = {split: as_dict(load_images(tmp_path, split)) for split in SPLITS}
    for split, short in (("validation", "val"), ("test", "test")):
        if short in first:
            expected = set(range(first[short], first[short] + 200))
        else:
            wanted = {"validation": 1, "test": 0}[split]
            keys = [f"{name}/{index}.png" for name in ("ape", "cat") for index in range(100)]
            expected = {number for number, key in enumerate(keys) if tenth(key) == wanted}
            assert expected
        assert set(loaded[split]) == expected
    assert set(loaded["train"]) == set(range(200)) - set(loaded["test"]) - set(loaded["validation"])


def test_the_classes_are_those_of_all_splits(tmp_path):
    write(tmp_path, {"train/b": 3, "train/c": 3, "train/a": 3, "test/c": 2, "test/b": 1})
    images = load_images(tmp_path, "test")
    assert images.class_names == ["a", "b", "c"]
    assert Counter(as_dict(images).values()) == {"c": 2, "b": 1}
    write(tmp_path, {"test/d": 1})
    assert load_images(tmp_path, "test").class_names == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="every class must have a usable image; 'd' has none"):
        load_images(tmp_path)


@pytest.mark.parametrize("outer", ["", "my images/"])
@pytest.mark.parametrize("top", ["", "train/"])
def test_a_zip_file_is_read_like_a_folder(tmp_path, outer, top):
    root = write(tmp_path / "set", {f"{top}ape": 50, f"{top}cat": 50})
    archive = zipped(root, tmp_path / "set.ZIP", outer)
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("__MACOSX/ape/._0.png", b"x")
        file.writestr("README.txt", b"x")
    for split in SPLITS:
        images = load_images(str(archive), split)
        assert as_dict(images) == as_dict(load_images(root, split))
        assert images.class_names == ["ape", "cat"]
        assert list(images.skipped) == ["README.txt"] * (split == "train")


def test_every_other_file_is_named_once_but_hidden_ones(tmp_path):
    root = write(tmp_path, {"train/ape": 2, "train/cat": 2, "test/ape": 1, "notes": 0})
    named = ["a.json", "notes/b.svg", "train/ape/0.txt", "train/cat/1.HEIC", "train/cat/2"]
    for name in (*named, "Thumbs.db", "train/ape/.1.png", "train/ape/desktop.ini", "test/3.avif"):
        (root / name).write_bytes(b"x")
    write(root, {".cache/dog": 2, "train/.ipynb_checkpoints": 2}, first=100)
    images = load_images(root, "test")
    assert images.class_names == ["ape", "cat"] and as_dict(images) == {4: "ape"}
    assert images.skipped == {"test/3.avif": "no known image extension"}
    assert load_images(root).skipped == dict.fromkeys(named, "no known image extension")


def test_a_name_that_is_not_utf8_is_skipped_and_named(tmp_path):
    root = write(tmp_path, {"ape": 9, "cat": 9})
    for name in (b"ape/\xff\xe9.png", b"b\xe4r/1.png"):
        path = os.path.join(os.fsencode(root), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(image(99))
    images = load_images(root)
    assert images.class_names == ["ape", "cat"] and 99 not in as_dict(images)
    assert images.skipped == {
        r"'ape/\udcff\udce9.png'": "a name that is not UTF-8",
        r"'b\udce4r/1.png'": "a name that is not UTF-8",
    }
    json.dumps(images.skipped, ensure_ascii=False).encode()
    assert not load_images(root, "test").skipped


def test_an_image_of_too_many_pixels_is_skipped_and_named(tmp_path):
    write(tmp_path, {"train/ape": 2, "train/cat": 2, "val/cat": 1, "test/cat": 1})
    (tmp_path / "train/cat/9.png").write_bytes(encode_png(np.zeros((5, 7), "uint8")))
    images = load_images(tmp_path, max_pixels=34)
    assert images.skipped == {"train/cat/9.png": "too many pixels"} and len(images) == 4
    assert not load_images(tmp_path, max_pixels=35).skipped


def test_every_known_extension_is_read_in_any_case(tmp_path):
    extensions = ["jpg", "JPEG", "png", "gif", "Bmp", "webp", "TIF", "tiff", "ppm"]
    write(tmp_path, {"train/ape": 1, "train/cat": 1, "test/ape": 0})
    for number, extension in enumerate(extensions):  # the content decides, not the name
        (tmp_path / f"test/ape/{number}.{extension}").write_bytes(image(number))
    assert as_dict(load_images(tmp_path, "test")) == dict.fromkeys(range(9), "ape")


def test_bad_files_are_skipped_and_reported(tmp_path):
    write(tmp_path, {"train/ape": 3, "train/cat": 2, "test/ape": 1, "val/cat": 1})
    (tmp_path / "train/ape/1.png").write_bytes(b"")
    (tmp_path / "train/cat/1.png").write_bytes(image(4)[:45])
    (tmp_path / "train/stray.png").write_bytes(image(50))
    (tmp_path / "test/ape/9.png").write_bytes(b"not read now")
    (tmp_path / "train/cat/gone.jpg").symlink_to(tmp_path / "no such file")
    images = load_images(tmp_path)
    assert as_dict(images) == {0: "ape", 2: "ape", 3: "cat"}
    assert images.skipped == {
        "train/stray.png": "not in a class folder",
        "train/ape/1.png": "empty file",
        "train/cat/1.png": "truncated",
        "train/cat/gone.jpg": "unreadable (No such file or directory)",
    }


def test_a_damaged_file_of_a_zip_file_is_skipped(tmp_path):
    root = write(tmp_path / "set", {"train/ape": 3, "train/cat": 3, "val/ape": 1, "test/ape": 1})
    archive = zipped(root, tmp_path / "set.zip")
    archive.write_bytes(archive.read_bytes().replace(image(1)[:-20], image(2)[:-20], 1))
    images = load_images(archive)
    assert set(as_dict(images)) == {0, 2, 3, 4, 5}
    assert "Bad CRC-32" in images.skipped["train/ape/1.png"]


def test_images_describe_themselves_in_one_line():
    labels = np.zeros(1234, "int32")
    images = Images("mine", [b""] * 1234, labels, ["a"] * 10, {"a/b.jpg": "truncated", "c": "bad"})
    line = "mine: 1,234 images of 10 classes; skipped: 2 (a/b.jpg: truncated, c: bad)"
    assert str(images) == line and len(images) == 1234
    many = {f"{number}.png": "bad" for number in range(1006)}
    images = Images("mine", [b""], labels[:1], ["a", "b"], many)
    assert str(images).endswith(
        "1,006 (0.png: bad, 1.png: bad, 2.png: bad, 3.png: bad, 4.png: bad, … and 1,001 more)"
    )
    assert str(Images("mine", [], labels[:0], ["a"])).endswith("skipped: none")


def test_five_bad_files_are_all_listed():
    images = Images("mine", [], np.zeros(0), [], {str(number): "bad" for number in range(5)})
    assert str(images).endswith("(0: bad, 1: bad, 2: bad, 3: bad, 4: bad)")


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ({"cat": 0, "dog": 0}, r"has no images; known extensions: \.jpg \.jpeg .*\.ppm"),
        ({".": 3}, r"must have a folder for each class; got 0\.png"),
        ({"train": 3, "test": 3}, r"must have a folder for each class; got test/0\.png"),
        ({"cat": 3}, "must have at least two classes; got cat"),
        ({"train/cat": 3, "test/cat": 2}, "must have at least two classes; got cat"),
        ({"cat": 30, "dog": 0}, "every class must have a usable image; 'dog' has none"),
        ({"test/cat": 3, "val/dog": 3}, "must have a folder train; got test, validation"),
        (
            {"train/cat": 3, "valid/cat": 3},
            r"CLASS/FILE or SPLIT/CLASS/FILE, where SPLIT is one of train, val, validation, test; "
            r"got train/cat/0\.png",
        ),
        ({"cat": 3, "dog/old": 3}, r"must be CLASS/FILE .*; got dog/old/0\.png"),
        ({"train/cat": 3, "train/dog/old": 3}, r"must be .*; got train/dog/old/0\.png"),
    ],
)
def test_folders_without_classes_are_refused(tmp_path, folders, message):
    write(tmp_path, folders)
    with pytest.raises(ValueError, match=message) as raised:
        load_images(tmp_path)
    assert str(tmp_path) in str(raised.value)


def test_a_class_may_be_called_train(tmp_path):
    write(tmp_path, {"train": 30, "plane": 30})
    assert load_images(tmp_path).class_names == ["plane", "train"]


def test_a_data_set_without_a_usable_image_gives_the_reason(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "train" / name).mkdir(parents=True)
        for number in range(9):
            (tmp_path / "train" / name / f"{number}.png").write_bytes(b"text")
    with pytest.raises(ValueError, match=r"\(train\) has no usable image; skipped: \d+ \(train"):
        load_images(tmp_path)
    write(tmp_path, {"test/cat": 1})
    (tmp_path / "test/cat/0.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"usable image; skipped: 1 \(test/cat/0.png: empty"):
        load_images(tmp_path, "test")


def test_an_empty_split_is_refused(tmp_path):
    write(tmp_path, {"cat": 1, "dog": 1})
    with pytest.raises(ValueError, match=r"\(test\) has no usable image; .*or folders train"):
        load_images(tmp_path, "test")


def test_a_zip_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"a\.zip is damaged or not supported: "):
        load_images(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("cat/0.png", image(0))
        file.filelist[0].flag_bits |= 1
    with pytest.raises(ValueError, match=r"b\.zip is encrypted"):
        load_images(tmp_path / "b.zip")


def test_a_missing_path_is_named(tmp_path):
    for name in ("gone", "gone.zip", "gone.npz"):
        with pytest.raises(FileNotFoundError, match=f"no such file or folder: .*{name}"):
            load_images(tmp_path / name)


@pytest.mark.parametrize("split", ["val", "Train", "", None])
def test_an_unknown_split_is_refused_with_the_known_ones(tmp_path, split):
    with pytest.raises(ValueError, match=r"unknown split .*; known: train, validation, test"):
        load_images("embedded:digits", split)


@pytest.mark.parametrize("spec", ["hf:cifar10", "embedded:faces", "http://host/a.zip", 7, None])
def test_an_unknown_source_is_refused_with_the_known_ones(spec):
    with pytest.raises(ValueError, match=r"unknown source .*; known: a folder.*zip.*npz.*tfds:"):
        load_images(spec)


def test_an_unknown_file_type_is_refused_with_the_known_ones(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"unknown source '.*a\.tar'; known: a folder"):
        load_images(tmp_path / "a.tar")


@pytest.mark.skipif(not CIFAR.exists(), reason="needs CIFAR-10")
def test_cifar10_is_read_from_its_zip_file():
    images = load_images(CIFAR, "validation")  # a tenth of 50,000, held out from train
    assert len(images) == 5087 and set(images.labels) == set(range(10)) and not images.skipped
    assert images.class_names[:3] == ["airplane", "automobile", "bird"]
    assert tf.io.decode_image(images.items[-1], channels=3).shape == (32, 32, 3)


def test_a_missing_split_is_all_of_train_if_nothing_is_held_out(tmp_path):
    folder = write(tmp_path / "flat", {"cat": 20, "dog": 15})
    assert len(load_images(folder, "test", hold_out=False)) == 35 > len(load_images(folder, "test"))
    folder = write(tmp_path / "split", {"test/cat": 3, "test/dog": 2})
    assert len(load_images(folder, "test", hold_out=False)) == 5
    with pytest.raises(ValueError, match="must have a folder train; got test"):
        load_images(folder, "validation", hold_out=False)
    assert len(load_images("embedded:digits", "test", hold_out=False)) == 1797
