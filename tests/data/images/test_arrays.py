"""Images from .npz files, and every error of such a file."""

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.images.sources import load_images
from tfx_transformer.data.splits import SPLITS, assign_split


def arrays(shape=(5, 4, 3), **others):
    """30 training and 7 test images of three classes."""
    rng = np.random.default_rng(0)
    made = {}
    for name, count in (("train", 30), ("test", 7)):
        made[f"x_{name}"] = rng.integers(0, 256, (count, *shape)).astype("uint8")
        made[f"y_{name}"] = np.arange(count) % 3
    return made | others


def save(path, **others):
    np.savez(path, **others)
    return path


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1), (5, 4, 3)])
def test_images_have_the_pixels_of_the_arrays(tmp_path, shape):
    given = arrays(shape)
    given["y_train"] = given["y_train"][:, None].astype("uint8")  # as in some data sets
    path = save(tmp_path / "a.npz", **given)
    rows = {
        "train": [row for row in range(30) if assign_split(str(row)) != "validation"],
        "validation": [row for row in range(30) if assign_split(str(row)) == "validation"],
        "test": list(range(7)),
    }
    for split in SPLITS:
        images = load_images(path, split)
        stored = "test" if split == "test" else "train"
        assert images.class_names == ["0", "1", "2"] and images.labels.dtype == np.int32
        assert images.labels.tolist() == [row % 3 for row in rows[split]]
        for row, item in zip(rows[split], images.items, strict=True):
            expected = given[f"x_{stored}"][row].reshape(5, 4, -1)
            pixels = tf.io.decode_image(item, channels=3, expand_animations=False)
            np.testing.assert_array_equal(pixels, np.broadcast_to(expected, (5, 4, 3)))


def test_a_file_may_have_a_validation_set_and_class_names(tmp_path):
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
        ({"y_train": GOOD["y_train"][1:]}, r"one for each of the 30 images; got int64 .*29"),
        ({"y_train": GOOD["y_train"] / 1}, "labels must be whole numbers .*; got float64"),
        ({"y_test": GOOD["y_test"] - 1}, "labels must be whole numbers from 0 on"),
        ({"y_train": np.eye(3, dtype=int)[GOOD["y_train"]]}, r"labels must .*\(30, 3\)"),
        ({"y_train": GOOD["y_train"] + 1}, "every class must have a usable image; '0' has none"),
        ({"y_train": 0 * GOOD["y_train"], "y_test": GOOD["y_test"] * 0}, "two classes; got 0"),
        ({"class_names": ["a", "b"]}, r"a string for each of 3 labels; got <U1 of shape \(2,\)"),
        ({"class_names": [1, 2, 3]}, "a string for each of 3 labels; got int64"),
        ({"class_names": np.array("abc")}, r"a string for each of 3 labels; got <U3 of shape \(\)"),
        ({"x_val": GOOD["x_test"]}, "must have x_train and y_train.*x_val with y_val.*; got"),
        ({"X_valid": GOOD["x_test"]}, "must have x_train and y_train, .*; got .*X_valid"),
        ({"y_train": np.array([{}] * 30)}, r"is damaged or not supported: .*allow_pickle"),
    ],
)
def test_invalid_arrays_are_refused(tmp_path, change, message):
    path = save(tmp_path / "a.npz", **(GOOD | change))
    with pytest.raises(ValueError, match=message) as raised:
        load_images(path)
    assert str(path) in str(raised.value)


def test_a_file_needs_training_arrays(tmp_path):
    path = save(tmp_path / "a.npz", x_test=GOOD["x_test"], y_test=GOOD["y_test"])
    with pytest.raises(ValueError, match="must have x_train and y_train"):
        load_images(path, "test")


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-90], lambda data: b"text", lambda data: b""]
)
def test_a_broken_npz_file_is_named(tmp_path, damage):
    path = save(tmp_path / "a.npz", **GOOD)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"a\.npz is damaged or not supported: "):
        load_images(path)


def test_a_small_file_of_very_many_pixels_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x_train=np.zeros((2**13, 64, 64), "uint8"), y_train=np.zeros(2**13))
    with pytest.raises(ValueError, match="a.npz of .* bytes must not expand to 33,6"):
        load_images(path)


def test_huge_labels_are_refused(tmp_path):
    path = save(tmp_path / "a.npz", **GOOD | {"y_train": np.full(30, 2**40)})
    with pytest.raises(ValueError, match="train: labels must be less than 1,048,576; got 10995"):
        load_images(path)
