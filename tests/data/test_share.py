"""The shares of all workers together are the batch, however many there are."""

import numpy as np
import pytest

from tfx_transformer.data.buckets import EMPTY, Batch
from tfx_transformer.data.images.batches import ImageBatches
from tfx_transformer.data.images.options import Augmentation
from tfx_transformer.data.share import Share
from tfx_transformer.data.text.language import LanguageBatches, language_tokenizer

TEXT = "the cat sat on the mat, and the dog lay under the old tree.\n" * 9


@pytest.mark.parametrize("workers, replicas", [(1, 1), (1, 4), (2, 2), (3, 3), (2, 8), (5, 5)])
def test_every_row_is_in_one_share_and_shares_are_equal(workers, replicas):
    rows = np.arange(11)
    shares = [Share(i, workers, replicas) for i in range(workers)]
    parts = [share.of(rows, EMPTY) for share in shares]
    assert {len(part) for part in parts} == {shares[0].size(11)}
    joined = np.concatenate(parts)
    assert joined[:11].tolist() == rows.tolist() and set(joined[11:]) <= {EMPTY}
    assert len(joined) % replicas == 0 and len(joined) - 11 < replicas


def test_rows_in_place_of_empty_ones_are_the_first_of_the_whole_batch():
    parts = [Batch(8, np.array([4, 7, EMPTY])).share(Share(i, 4, 4)) for i in range(4)]
    assert [part.filled_rows.tolist() for part in parts] == [[4], [7], [4], [4]]
    assert [part.is_real.tolist() for part in parts] == [[True], [True], [False], [False]]


def test_two_workers_build_the_batches_of_one():
    tokenizer = language_tokenizer(TEXT)

    def batches(share):
        data = LanguageBatches(TEXT, tokenizer, max_length=16, batch_size=5)
        data.divide(share)
        return list(data.dataset(3, 2).as_numpy_iterator())

    whole, *parts = (batches(share) for share in (Share(), Share(0, 2, 2), Share(1, 2, 2)))
    assert len(whole) == len(parts[0]) > 2
    for one, first, second in zip(whole, *parts, strict=True):
        for array, *halves in zip(one, first, second, strict=True):
            assert [len(half) for half in halves] == [3, 3]  # one row more than the batch has
            np.testing.assert_array_equal(np.concatenate(halves)[:5], array)
        assert first[2].sum() + second[2].sum() == one[2].sum()


class Files:
    """Eight images, which are not read here."""

    name, class_names, labels = "files", ["a", "b"], np.arange(8, dtype="int32") % 2
    items = [bytes([i]) for i in range(8)]

    def __len__(self):
        return 8


def image_batches(**augmentation):
    return ImageBatches(Files(), 32, batch_size=8, augmentation=Augmentation(**augmentation))


@pytest.mark.parametrize("mixup", [0.0, 0.5])
def test_images_that_are_mixed_are_in_the_same_share(mixup):
    data = image_batches(mixup=mixup)
    (whole,) = data.batch_arrays(1, 0)
    pairs = dict(zip(whole[0], whole[0][::-1], strict=True))  # mixed with the reversed batch
    found = []
    for index in range(2):
        data.divide(Share(index, 2, 2))
        (part,) = data.batch_arrays(1, 0)
        found += part[0].tolist()
        assert (part[3] == whole[3][0]).all() and len(part[0]) == 4  # the same mixing
        if mixup:
            assert [pairs[item] for item in part[0]] == part[0][::-1].tolist()
    assert sorted(found) == sorted(whole[0])


def test_images_that_cannot_be_divided_are_refused():
    with pytest.raises(ValueError, match="the 3 replicas must divide data.batch_size=8"):
        image_batches().divide(Share(0, 3, 3))
    image_batches(mixup=0.0).divide(Share(0, 8, 8))
    with pytest.raises(ValueError, match="even number of the 8 images of a batch; got 8 workers"):
        image_batches(mixup=0.5).divide(Share(0, 8, 8))
