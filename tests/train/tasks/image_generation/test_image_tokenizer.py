"""The image tokenizer of a run: trained once, and continued exactly."""

import dataclasses

import keras
import numpy as np
import pytest

from tfx_transformer.train.tasks.image_generation import ImageTokenizerOptions
from tfx_transformer.train.tasks.image_generation import image_tokenizer as module

OPTIONS = ImageTokenizerOptions(
    codebook_size=5, dim=4, depth=1, image_size=8, patch_size=4, steps=8, batch_size=3
)


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), "uint8")


def test_it_is_trained_once_and_an_interrupted_training_continues_exactly(
    images, tmp_path, monkeypatch
):
    whole = module.stored_image_tokenizer(tmp_path / "whole", OPTIONS, images, 1)
    assert sorted(path.name for path in (tmp_path / "whole/tokenizer").iterdir()) == ["image.keras"]

    save, saved = module.Checkpoints.save, []

    def save_and_stop(self, step, model):
        saved.append(step)
        save(self, step, model)
        if step == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(module.Checkpoints, "save", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        module.stored_image_tokenizer(tmp_path / "cut", OPTIONS, images, 1)
    assert not (tmp_path / "cut/tokenizer/image.keras").exists()
    again = module.stored_image_tokenizer(tmp_path / "cut", OPTIONS, images, 1)
    assert saved == [2, 4, 6, 8]
    for ours, theirs in zip(whole.weights, again.weights, strict=True):
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())

    def train(*_):
        raise AssertionError("trained twice")

    monkeypatch.setattr(module, "train_image_tokenizer", train)
    module.stored_image_tokenizer(tmp_path / "whole", OPTIONS, images, 1)
    first = keras.random.uniform((3,))
    keras.utils.set_random_seed(1)  # as after a training
    np.testing.assert_array_equal(first, keras.random.uniform((3,)))


def test_batches_depend_on_the_seed_and_the_number_alone(images):
    def batches(seed, step, count):
        data = module.image_batches(images, 3, seed, step).take(count)
        return [inputs.numpy() for inputs, _ in data]

    first = batches(0, 0, 4)
    np.testing.assert_array_equal(first[2:], batches(0, 2, 2))
    assert np.abs(np.array(first[0]) - batches(1, 0, 1)[0]).max() > 0.1
    rows = np.array(
        [np.abs(images / 127.5 - 1 - row).max(axis=(1, 2, 3)).min() for row in first[0]]
    )
    assert (rows < 1e-5).all()


def test_tokens_are_those_of_the_model(images):
    model = module.make_image_tokenizer(OPTIONS)
    model.build()
    tokens = module.encode_images(model, images)
    expected = model.encode((images / 127.5 - 1).astype("float32"))
    np.testing.assert_array_equal(tokens, np.array(expected).reshape(20, 4))


def test_the_schedules_follow_the_steps():
    model = module.make_image_tokenizer(dataclasses.replace(OPTIONS, steps=400))
    assert (model.kl_steps, model.temperature_steps) == (100, 300)
