"""The image tokenizer of a run: a discrete VAE, trained once, before the model of its tokens."""

import shutil
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from tfx_transformer.files import whole_file
from tfx_transformer.models.discrete_vae import DiscreteVAE, LaplaceLoss
from tfx_transformer.pipelines.text_to_image import to_uint8
from tfx_transformer.runtime import graph, without_autograph
from tfx_transformer.train.tasks.image_generation import ImageTokenizerOptions
from tfx_transformer.training.callbacks import Progress, StopAtNaN
from tfx_transformer.training.checkpoint import Checkpoints

NAME = "tokenizer/image.keras"
CHECKPOINTS = 4  # of a training
WARM_UP, LAST_RATE = 0.05, 0.02  # of the steps, and of the highest learning rate
BATCH_SIZE = 128  # of encoding
SAMPLE = 400  # images whose parts are the first codes


def stored_image_tokenizer(
    folder: Path, options: ImageTokenizerOptions, images: np.ndarray, seed: int
) -> DiscreteVAE:
    """The discrete VAE of a run folder; trained on images (N, h, w, 3), and saved, if needed.

    What follows in the run does not depend on whether it was trained here: seeds are set again.
    """
    path = folder / NAME
    if not path.exists():
        model = train_image_tokenizer(options, images, seed, path.with_name("checkpoints"))
        with whole_file(path) as temporary:
            model.save(temporary)
        shutil.rmtree(path.with_name("checkpoints"), ignore_errors=True)
    model = load_image_tokenizer(folder)
    keras.utils.set_random_seed(seed)
    return model


def load_image_tokenizer(folder: Path) -> DiscreteVAE:
    return keras.saving.load_model(folder / NAME, compile=False)


def make_image_tokenizer(options: ImageTokenizerOptions) -> DiscreteVAE:
    """With its initial weights."""
    names = ("codebook_size", "dim", "depth", "image_size", "patch_size", "kl_weight")
    return DiscreteVAE(
        **{name: getattr(options, name) for name in names},
        kl_steps=max(options.steps // 4, 1),
        temperature_steps=max(3 * options.steps // 4, 1),
        name="discrete_vae",
    )


def train_image_tokenizer(
    options: ImageTokenizerOptions, images: np.ndarray, seed: int, folder: Path
) -> DiscreteVAE:
    """A discrete VAE, trained on images (N, h, w, 3) of uint8.

    Training continues from the last checkpoint in the folder: the batches and random numbers of a
    step depend on the seed and the step alone.
    """
    keras.utils.set_random_seed(seed)
    model = make_image_tokenizer(options)
    model.build()
    warm_up = round(WARM_UP * options.steps)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0,
        decay_steps=max(options.steps - warm_up, 1),
        alpha=LAST_RATE,
        warmup_target=options.learning_rate,
        warmup_steps=warm_up,
    )
    model.compile(keras.optimizers.Adam(rate), LaplaceLoss())
    model.optimizer.build(model.trainable_variables)
    checkpoints = Checkpoints(folder, keep=1)
    step = checkpoints.restore(model)
    if step == 0:
        rows = np.random.default_rng(seed).permutation(len(images))[:SAMPLE]
        model.spread_codes(scale_pixels(images[rows]), seed)
    print(f"{type(model).__name__}: {model.count_params():,} parameters; from step {step:,}")
    progress = Progress(options.steps, step, options.batch_size, "images")
    while step < options.steps:
        interval = max(options.steps // CHECKPOINTS, 1)
        steps = min(interval - step % interval, options.steps - step)
        model.fit(
            image_batches(images, options.batch_size, seed, step),
            steps_per_epoch=steps,
            shuffle=False,
            verbose=0,
            callbacks=[progress, StopAtNaN()],
        )
        step += steps
        checkpoints.save(step, model)
    return model


def image_batches(images: np.ndarray, size: int, seed: int, step: int) -> tf.data.Dataset:
    """Endless batches (pixels, pixels) of random images, -1 to 1, from number `step` on."""
    pixels = tf.constant(images)

    def read(number):
        seeds = tf.stack([tf.constant(seed, tf.int64), number])
        rows = tf.random.stateless_uniform([size], seeds, 0, len(images), tf.int32)
        batch = scale_pixels(tf.gather(pixels, rows))
        return batch, batch

    return tf.data.Dataset.counter(step).map(without_autograph(read)).prefetch(2)


def scale_pixels(images):
    """Pixels in 0 … 255 → -1 to 1."""
    return tf.cast(images, tf.float32) / 127.5 - 1


def reconstruct_images(model: DiscreteVAE, images: np.ndarray) -> np.ndarray:
    """Images (N, h, w, 3) of uint8 → the images of their tokens."""
    spec = tf.TensorSpec([None, *images.shape[1:]], tf.uint8)
    restore = graph(lambda x: to_uint8(model(scale_pixels(x), training=False)), spec)
    parts = [restore(images[i : i + BATCH_SIZE]) for i in range(0, len(images), BATCH_SIZE)]
    return np.concatenate(parts)


def encode_images(model: DiscreteVAE, images: np.ndarray) -> np.ndarray:
    """Images (N, h, w, 3) of uint8 → their tokens (N, rows · columns)."""
    spec = tf.TensorSpec([None, *images.shape[1:]], tf.uint8)
    encode = graph(lambda x: model.encode(scale_pixels(x)), spec)
    parts = [encode(images[i : i + BATCH_SIZE]) for i in range(0, len(images), BATCH_SIZE)]
    return np.concatenate(parts).reshape(len(images), -1)
