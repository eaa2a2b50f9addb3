"""Pictures by class from every kind of source, and every way in which one can be wrong."""

import hashlib
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from tfx_transformer.data.images import Images, load_images
from tfx_transformer.data.pictures import encode_png
from tfx_transformer.data.splits import SPLITS

CIFAR = Path(__file__).parents[3] / "shared/data/cifar10/cifar10.zip"


def picture(number):
    """Three pixels that tell which picture it is."""
    return encode_png(np.array([[number // 256, number % 256, 7]], "uint8"))


def number_of(item):
    pixels = tf.io.decode_image(item, channels=3, expand_animations=False).numpy()
    return 256 * int(pixels[0, 0, 0]) + int(pixels[0, 1, 0])


def as_dict(images):
    """Number of the picture → name of its class."""
    names = [images.class_names[label] for label in images.labels]
    return dict(zip(map(number_of, images.items), names, strict=True))


def write(root, folders, first=0):
    """Writes so many pictures in each folder, "0.png" on, all with numbers of their own."""
    for folder, count in folders.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        for place in range(count):
            (root / folder / f"{place}.png").write_bytes(picture(first))
            first += 1
    return root


def zipped(root, path, around=""):
    with zipfile.ZipFile(path, "w") as file:
        for source in sorted(root.rglob("*")):
            file.write(source, around + source.relative_to(root).as_posix())
    return path


def tenth(key):
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") % 10


def test_class_folders_are_split_by_the_hash_of_the_path(tmp_path):
    write(tmp_path, {"cat": 60, "ape": 80, "Dog": 70})
    expected = {split: {} for split in SPLITS}
    for first, name, count in ((0, "cat", 60), (60, "ape", 80), (140, "Dog", 70)):
        for place in range(count):
            split = {0: "test", 1: "validation"}.get(tenth(f"{name}/{place}.png"), "train")
            expected[split][first + place] = name
    for split in SPLITS:
        images = load_images(tmp_path, split)
        assert as_dict(images) == expected[split] and len(images) > 10
        assert images.class_names == ["Dog", "ape", "cat"]
        assert images.labels.dtype == np.int32 and not images.skipped


def test_no_picture_moves_when_others_come(tmp_path):
    write(tmp_path, {"cat": 40, "dog": 40})
    before = {split: as_dict(load_images(tmp_path, split)) for split in SPLITS}
    write(tmp_path, {"ape": 50}, first=500)
    (tmp_path / "cat/another.png").write_bytes(picture(900))
    for split in SPLITS:
        assert before[split].items() <= as_dict(load_images(tmp_path, split)).items()


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
def test_split_folders_are_kept_and_missing_ones_are_cut_from_train(tmp_path, folders):
    write(tmp_path, {f"{top}/{name}": 30 for top in folders for name in ("ape", "cat")})
    own = {folder.lower().replace("validation", "val"): 60 * i for i, folder in enumerate(folders)}
    found = {split: as_dict(load_images(tmp_path, split)) for split in SPLITS}
    for split, short in (("validation", "val"), ("test", "test")):
        if short in own:
            expected = set(range(own[short], own[short] + 60))
        else:
            cut = {"validation": 1, "test": 0}[split]
            keys = [f"{name}/{place}.png" for name in ("ape", "cat") for place in range(30)]
            expected = {number for number, key in enumerate(keys) if tenth(key) == cut}
            assert expected
        assert set(found[split]) == expected
    assert set(found["train"]) == set(range(60)) - set(found["test"]) - set(found["validation"])


def test_the_classes_are_those_of_all_splits(tmp_path):
    write(tmp_path, {"train/b": 3, "train/c": 3, "train/a": 3, "test/c": 2, "test/b": 1})
    images = load_images(tmp_path, "test")
    assert images.class_names == ["a", "b", "c"]
    assert Counter(as_dict(images).values()) == {"c": 2, "b": 1}
    write(tmp_path, {"test/d": 1})
    assert load_images(tmp_path, "test").class_names == ["a", "b", "c", "d"]
    with pytest.raises(ValueError, match="every class must have a usable picture; 'd' has none"):
        load_images(tmp_path)


@pytest.mark.parametrize("around", ["", "my pictures/"])
@pytest.mark.parametrize("top", ["", "train/"])
def test_a_zip_file_is_read_like_a_folder(tmp_path, around, top):
    root = write(tmp_path / "set", {f"{top}ape": 50, f"{top}cat": 50})
    archive = zipped(root, tmp_path / "set.ZIP", around)
    with zipfile.ZipFile(archive, "a") as file:
        file.writestr("__MACOSX/ape/._0.png", b"x")
        file.writestr("README.txt", b"x")
    for split in SPLITS:
        images = load_images(str(archive), split)
        assert as_dict(images) == as_dict(load_images(root, split))
        assert images.class_names == ["ape", "cat"] and not images.skipped


def test_what_is_no_picture_is_not_even_named(tmp_path):
    root = write(tmp_path, {"train/ape": 2, "train/cat": 2, "test/ape": 1, "notes": 0})
    for name in ("Thumbs.db", "train/labels.csv", "train/ape/0.txt", "train/ape/.1.png", "a.json"):
        (root / name).write_bytes(b"x")
    write(root, {".cache/dog": 2, "train/.ipynb_checkpoints": 2}, first=100)
    images = load_images(root, "test")
    assert (images.class_names, images.skipped) == (["ape", "cat"], {})
    assert as_dict(images) == {4: "ape"}


def test_every_known_ending_is_read_in_any_case(tmp_path):
    endings = ["jpg", "JPEG", "png", "gif", "Bmp", "webp", "TIF", "tiff", "ppm"]
    write(tmp_path, {"train/ape": 1, "train/cat": 1, "test/ape": 0})
    for number, ending in enumerate(endings):  # what is inside decides, not the name
        (tmp_path / f"test/ape/{number}.{ending}").write_bytes(picture(number))
    assert as_dict(load_images(tmp_path, "test")) == dict.fromkeys(range(9), "ape")


def test_bad_files_are_left_out_and_named(tmp_path):
    write(tmp_path, {"train/ape": 3, "train/cat": 2, "test/ape": 1})
    (tmp_path / "train/ape/1.png").write_bytes(b"")
    (tmp_path / "train/cat/1.png").write_bytes(picture(4)[:45])
    (tmp_path / "train/stray.png").write_bytes(picture(50))
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


def test_a_damaged_file_of_a_zip_file_is_left_out(tmp_path):
    root = write(tmp_path / "set", {"train/ape": 3, "train/cat": 3, "val/ape": 1, "test/ape": 1})
    archive = zipped(root, tmp_path / "set.zip")
    archive.write_bytes(archive.read_bytes().replace(picture(1)[:-20], picture(2)[:-20], 1))
    images = load_images(archive)
    assert set(as_dict(images)) == {0, 2, 3, 4, 5}
    assert "Bad CRC-32" in images.skipped["train/ape/1.png"]


def test_images_describe_themselves_in_one_line():
    labels = np.zeros(1234, "int32")
    images = Images("mine", [b""] * 1234, labels, ["a"] * 10, {"a/b.jpg": "truncated", "c": "bad"})
    line = "mine: 1,234 pictures of 10 classes; skipped: 2 (a/b.jpg: truncated, c: bad)"
    assert str(images) == line and len(images) == 1234
    many = {f"{number}.png": "bad" for number in range(1006)}
    images = Images("mine", [b""], labels[:1], ["a", "b"], many)
    assert str(images).endswith(
        "skipped: 1,006 (0.png: bad, 1.png: bad, 2.png: bad, 3.png: bad, 4.png: bad, …)"
    )
    assert str(Images("mine", [], labels[:0], ["a"])).endswith("skipped: none")


def test_five_bad_files_are_all_named():
    images = Images("mine", [], np.zeros(0), [], {str(number): "bad" for number in range(5)})
    assert str(images).endswith("(0: bad, 1: bad, 2: bad, 3: bad, 4: bad)")


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ({"cat": 0, "dog": 0}, r"holds no picture; known endings: \.jpg \.jpeg .*\.ppm"),
        ({".": 3}, r"must have a folder for each class; got 0\.png"),
        ({"train": 3, "test": 3}, r"must have a folder for each class; got test/0\.png"),
        ({"cat": 3}, "must have at least two classes; got cat"),
        ({"train/cat": 3, "test/cat": 2}, "must have at least two classes; got cat"),
        ({"cat": 30, "dog": 0}, "every class must have a usable picture; 'dog' has none"),
        ({"test/cat": 3, "val/dog": 3}, "must have a folder train; got test, validation"),
        (
            {"train/cat": 3, "valid/cat": 3},
            r"CLASS/FILE or SPLIT/CLASS/FILE, where SPLIT is one of train, val, validation, test; "
            r"got train/cat/0\.png",
        ),
        ({"cat": 3, "dog/old": 3}, r"must lie in CLASS/FILE .*; got dog/old/0\.png"),
        ({"train/cat": 3, "train/dog/old": 3}, r"must lie in .*; got train/dog/old/0\.png"),
    ],
)
def test_folders_that_are_no_set_are_refused(tmp_path, folders, message):
    write(tmp_path, folders)
    with pytest.raises(ValueError, match=message) as raised:
        load_images(tmp_path)
    assert str(tmp_path) in str(raised.value)


def test_a_class_may_be_called_train(tmp_path):
    write(tmp_path, {"train": 30, "plane": 30})
    assert load_images(tmp_path).class_names == ["plane", "train"]


def test_a_set_without_a_usable_picture_says_why(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / "train" / name).mkdir(parents=True)
        for number in range(9):
            (tmp_path / "train" / name / f"{number}.png").write_bytes(b"text")
    with pytest.raises(
        ValueError, match=r"\(train\) holds no usable picture; skipped: \d+ \(train"
    ):
        load_images(tmp_path)
    write(tmp_path, {"test/cat": 1})
    (tmp_path / "test/cat/0.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"usable picture; skipped: 1 \(test/cat/0.png: empty"):
        load_images(tmp_path, "test")


def test_a_split_that_is_empty_is_refused(tmp_path):
    write(tmp_path, {"cat": 1, "dog": 1})
    with pytest.raises(ValueError, match=r"\(test\) holds no usable picture; .*make folders train"):
        load_images(tmp_path, "test")


def test_a_zip_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"a\.zip is not a whole zip file"):
        load_images(tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("cat/0.png", picture(0))
        file.filelist[0].flag_bits |= 1
    with pytest.raises(ValueError, match=r"b\.zip is encrypted"):
        load_images(tmp_path / "b.zip")


def test_a_missing_path_is_named(tmp_path):
    for name in ("gone", "gone.zip", "gone.npz"):
        with pytest.raises(FileNotFoundError, match=f"no such file or folder: .*{name}"):
            load_images(tmp_path / name)


@pytest.mark.parametrize("split", ["val", "Train", "", None])
def test_an_unknown_split_lists_the_known(tmp_path, split):
    with pytest.raises(ValueError, match=r"unknown split .*; known: train, validation, test"):
        load_images("embedded:digits", split)


@pytest.mark.parametrize("spec", ["hf:cifar10", "embedded:faces", "http://host/a.zip", 7, None])
def test_an_unknown_source_lists_the_known(spec):
    with pytest.raises(ValueError, match=r"unknown source .*; known: a folder.*zip.*npz.*tfds:"):
        load_images(spec)


def test_a_file_of_another_kind_lists_the_known(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"unknown source '.*a\.tar'; known: a folder"):
        load_images(tmp_path / "a.tar")


# arrays


def arrays(shape=(5, 4, 3), **others):
    """Thirty pictures to train on and seven to test, of three classes."""
    rng = np.random.default_rng(0)
    found = {}
    for name, count in (("train", 30), ("test", 7)):
        found[f"x_{name}"] = rng.integers(0, 256, (count, *shape)).astype("uint8")
        found[f"y_{name}"] = np.arange(count) % 3
    return found | others


def save(path, **others):
    np.savez(path, **others)
    return path


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1), (5, 4, 3)])
def test_arrays_come_back_pixel_by_pixel(tmp_path, shape):
    given = arrays(shape)
    given["y_train"] = given["y_train"][:, None].astype("uint8")  # as some sets keep them
    path = save(tmp_path / "a.npz", **given)
    rows = {
        "train": [row for row in range(30) if tenth(str(row)) != 1],
        "validation": [row for row in range(30) if tenth(str(row)) == 1],
        "test": list(range(7)),
    }
    for split in SPLITS:
        images = load_images(path, split)
        own = "test" if split == "test" else "train"
        assert images.class_names == ["0", "1", "2"] and images.labels.dtype == np.int32
        assert images.labels.tolist() == [row % 3 for row in rows[split]]
        for row, item in zip(rows[split], images.items, strict=True):
            expected = given[f"x_{own}"][row].reshape(5, 4, -1)
            found = tf.io.decode_image(item, channels=3, expand_animations=False)
            np.testing.assert_array_equal(found, np.broadcast_to(expected, (5, 4, 3)))


def test_arrays_may_bring_validation_and_names(tmp_path):
    given = arrays()
    path = save(
        tmp_path / "a.npz",
        **given,
        x_val=given["x_train"][:4],
        y_val=np.array([2, 2, 0, 1]),
        class_names=["ape", "cat", "dog"],
    )
    images = load_images(path, "validation")
    assert images.labels.tolist() == [2, 2, 0, 1] and images.class_names == ["ape", "cat", "dog"]
    assert len(load_images(path)) == 30


GOOD = arrays()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x_train": GOOD["x_train"] / 255}, r"train: pixels must .*saved as uint8, .*float64"),
        ({"x_test": GOOD["x_test"].astype("int32")}, r"test: pixels must .*uint8.*; got int32"),
        ({"x_train": GOOD["x_train"][..., :2]}, r"shape \(N, h, w\).*; got \(30, 5, 4, 2\)"),
        ({"x_train": GOOD["x_train"][:, 0, 0]}, r"shape \(N, h, w\).*; got \(30, 3\)"),
        ({"x_train": GOOD["x_train"][:, :0]}, r"shape \(N, h, w\).*; got \(30, 0, 4, 3\)"),
        ({"y_train": GOOD["y_train"][1:]}, r"one for each of the 30 pictures; got int64 .*29"),
        ({"y_train": GOOD["y_train"] / 1}, "labels must be whole numbers .*; got float64"),
        ({"y_test": GOOD["y_test"] - 1}, "labels must be whole numbers from 0 on"),
        ({"y_train": np.eye(3, dtype=int)[GOOD["y_train"]]}, r"labels must .*\(30, 3\)"),
        ({"y_train": GOOD["y_train"] + 1}, "every class must have a usable picture; '0' has none"),
        ({"y_train": 0 * GOOD["y_train"], "y_test": GOOD["y_test"] * 0}, "two classes; got 0"),
        ({"class_names": ["a", "b"]}, r"a text for each of 3 labels; got <U1 of shape \(2,\)"),
        ({"class_names": [1, 2, 3]}, "a text for each of 3 labels; got int64"),
        ({"class_names": np.array("abc")}, r"a text for each of 3 labels; got <U3 of shape \(\)"),
        ({"x_val": GOOD["x_test"]}, "must hold x_train and y_train.*x_val with y_val.*; got"),
        ({"X_valid": GOOD["x_test"]}, "must hold x_train and y_train, .*; got .*X_valid"),
        ({"y_train": np.array([{}] * 30)}, r"not a whole \.npz file of plain arrays .*pickle"),
    ],
)
def test_arrays_that_are_no_set_are_refused(tmp_path, change, message):
    path = save(tmp_path / "a.npz", **(GOOD | change))
    with pytest.raises(ValueError, match=message) as raised:
        load_images(path)
    assert str(path) in str(raised.value)


def test_arrays_to_train_on_are_needed(tmp_path):
    path = save(tmp_path / "a.npz", x_test=GOOD["x_test"], y_test=GOOD["y_test"])
    with pytest.raises(ValueError, match="must hold x_train and y_train"):
        load_images(path, "test")


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-90], lambda data: b"text", lambda data: b""]
)
def test_a_broken_npz_file_is_named(tmp_path, damage):
    path = save(tmp_path / "a.npz", **GOOD)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.npz is not a whole \.npz file"):
        load_images(path)


# the digits of scikit-learn


def test_the_embedded_digits_are_all_there_and_split_by_their_number():
    from sklearn.datasets import load_digits

    digits = load_digits()
    for split in SPLITS:
        images = load_images("embedded:digits", split)
        rows = [
            row
            for row in range(1797)
            if {0: "test", 1: "validation"}.get(tenth(str(row)), "train") == split
        ]
        assert images.class_names == list("0123456789")
        assert images.labels.tolist() == digits.target[rows].tolist()
        assert images.name == f"embedded:digits ({split})"
        for row, item in list(zip(rows, images.items, strict=True))[::40]:
            found = tf.io.decode_image(item, channels=3, expand_animations=False).numpy()
            assert found.shape == (8, 8, 3)
            expected = np.broadcast_to(digits.images[row][..., None] / 16, (8, 8, 3))
            np.testing.assert_allclose(found / 255, expected, atol=0.5 / 255 + 1e-9)


# TFDS


def prepare(folder, file_format="tfrecord", labels=("ape", "cat"), **counts):
    """Stores a tiny set whose pictures tell their number; train starts at 0, the others at 100."""
    splits = {}
    for split, count in counts.items():
        first = 0 if split == "train" else 100
        pixels = np.zeros((count, 2, 3, 3), "uint8")
        pixels[:, 0, 1] = first + np.arange(count)[:, None]
        kinds = np.arange(count) % len(labels) if split != "secret" else -np.ones(count, int)
        splits["test" if split == "secret" else split] = tf.data.Dataset.from_tensor_slices(
            {"image": pixels, "label": kinds}
        )
    tfds.dataset_builders.store_as_tfds_dataset(
        name="tiny",
        version="1.0.0",
        data_dir=str(folder),
        features=tfds.features.FeaturesDict(
            {
                "image": tfds.features.Image(shape=(2, 3, 3)),
                "label": tfds.features.ClassLabel(names=list(labels)),
            }
        ),
        split_datasets=splits,
        file_format=file_format,
        disable_shuffling=True,
    )
    return folder


@pytest.mark.parametrize("file_format", ["tfrecord", "array_record"])
def test_tfds_gives_what_was_prepared_and_cuts_what_is_missing(tmp_path, file_format):
    prepare(tmp_path, file_format, train=60, test=9)
    parts = {split: load_images("tfds:tiny", split, data_dir=tmp_path) for split in SPLITS}
    cut = {row for row in range(60) if tenth(str(row)) == 1}
    numbers = {"train": set(range(60)) - cut, "validation": cut, "test": set(range(100, 109))}
    for split, images in parts.items():
        assert as_dict(images) == {n: ("ape", "cat")[n % 2] for n in numbers[split]}
        assert list(as_dict(images)) == sorted(numbers[split])
        assert images.class_names == ["ape", "cat"] and images.labels.dtype == np.int32
        assert isinstance(images.items, list) == (file_format == "tfrecord")
        assert images.name == f"tfds:tiny ({split})"


def test_a_tfds_split_val_is_the_validation_set(tmp_path):
    prepare(tmp_path, train=30, val=4)
    images = load_images("tfds:tiny", "validation", data_dir=tmp_path)
    assert list(as_dict(images)) == [100, 101, 102, 103]
    assert set(as_dict(load_images("tfds:tiny", data_dir=tmp_path))) == {
        row for row in range(30) if tenth(str(row)) != 0
    }


def test_a_tfds_split_without_classes_is_refused(tmp_path):
    prepare(tmp_path, train=4, secret=3)
    with pytest.raises(ValueError, match="tfds:tiny does not tell the classes of its split test"):
        load_images("tfds:tiny", "test", data_dir=tmp_path)


def test_a_tfds_set_must_have_a_training_set_and_two_classes(tmp_path):
    prepare(tmp_path / "a", test=4)
    with pytest.raises(ValueError, match=r"tfds:tiny must have a split train; got \['test'\]"):
        load_images("tfds:tiny", "test", data_dir=tmp_path / "a")
    prepare(tmp_path / "b", labels=["ape"], train=4)
    with pytest.raises(ValueError, match="tfds:tiny must have at least two classes; got ape"):
        load_images("tfds:tiny", data_dir=tmp_path / "b")


def test_a_tfds_set_that_is_not_prepared_or_not_known_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tfds:cifar10 is not prepared in .*\n.*download_"):
        load_images("tfds:cifar10", data_dir=tmp_path)
    with pytest.raises(ValueError, match="unknown TFDS set 'no_such_set'"):
        load_images("tfds:no_such_set", data_dir=tmp_path)
    with pytest.raises(ValueError, match="is no set for classification"):
        load_images("tfds:ted_hrlr_translate/pt_to_en", data_dir=tmp_path)


@pytest.mark.skipif(not CIFAR.exists(), reason="needs CIFAR-10")
def test_cifar10_is_read_from_its_zip_file():
    images = load_images(CIFAR, "validation")  # a tenth of 50,000, cut from train
    assert len(images) == 5087 and set(images.labels) == set(range(10)) and not images.skipped
    assert images.class_names[:3] == ["airplane", "automobile", "bird"]
    assert tf.io.decode_image(images.items[-1], channels=3).shape == (32, 32, 3)


def test_a_source_without_the_split_serves_whole_if_nothing_is_cut(tmp_path):
    folder = write(tmp_path / "flat", {"cat": 20, "dog": 15})
    assert len(load_images(folder, "test", cut=False)) == 35 > len(load_images(folder, "test"))
    folder = write(tmp_path / "split", {"test/cat": 3, "test/dog": 2})
    assert len(load_images(folder, "test", cut=False)) == 5
    with pytest.raises(ValueError, match="must have a folder train; got test"):
        load_images(folder, "validation", cut=False)
    assert len(load_images("embedded:digits", "test", cut=False)) == 1797
