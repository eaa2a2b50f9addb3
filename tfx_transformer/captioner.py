"""A model with all that stands between a picture file and a sentence about it."""

import tensorflow as tf

from tfx_transformer.checks import check_positive, check_share
from tfx_transformer.data.pixels import decode_batch, normalise
from tfx_transformer.data.tokenizer import PAD, START
from tfx_transformer.decoding import DECODERS
from tfx_transformer.graph import at_least_one, graph
from tfx_transformer.search import search, with_own_seed


class Captioner(tf.Module):
    """Bytes of pictures → captions, and which regions each word was said of.

    Args:
        model: has `initial_state`, `step`, `attention_maps`, `look`, `regions` and `image_size`.
        tokenizer: of the captions.
        decoder: a name in DECODERS, or a dict of its options.
        max_length: longest caption in tokens, END included.
        crop_ratio: which part of a picture's shorter side is seen.
        normalisation: a name in NORMALISATION, as in training.
    """

    def __init__(
        self,
        model,
        tokenizer,
        decoder="beam",
        max_length=32,
        crop_ratio=1.0,
        normalisation="imagenet",
    ):
        super().__init__()
        check_positive(max_length=max_length)
        check_share(crop_ratio=crop_ratio)
        self.model, self.tokenizer = model, tokenizer
        self.decoder, self.seeds = with_own_seed(DECODERS.make(decoder))
        self.max_length = max_length
        self.crop_ratio, self.normalisation = crop_ratio, normalisation
        size = model.image_size
        encoded = tf.TensorSpec([None], tf.string, name="image")
        images = tf.TensorSpec([None, size, size, 3], tf.float32, name="image")
        regions = tf.TensorSpec([None, None, model.regions.dim], tf.float32, name="features")
        self.read = graph(lambda image: decode_batch(image, size, crop_ratio), encoded)
        self.look = graph(self._look, images)
        self.tell = graph(self._tell, regions)
        self.caption = graph(self._caption, encoded)
        self.predict = graph(lambda image: self.tell(self.look(255 * image)), images)

    def _look(self, image):
        """Pixels from 0 to 255 → regions (B, S, C), float32 whatever the model computes in."""
        regions = at_least_one(self.model.look, normalise(image, self.normalisation))
        return tf.cast(regions, tf.float32)

    def _caption(self, image):
        """Files (B,) → as `tell`, and which were readable; the others have no caption."""
        images, is_readable = self.read(image)
        found = self.tell(self.look(images))

        def keep(x, nothing):
            shape = (-1, *[1] * (len(x.shape) - 1))
            return tf.where(tf.reshape(is_readable, shape), x, nothing)

        nothing = {tf.string: "", tf.float32: 0.0, tf.int32: PAD}
        found = {name: keep(x, nothing[x.dtype]) for name, x in found.items()}
        return found | {"is_readable": is_readable}

    def _tell(self, features):
        """Regions (B, S, C) → the best caption and what there is to know of it."""
        inputs = {"features": features}
        found = search(
            self.model, self.decoder, inputs, tf.shape(features)[0], tf.constant(self.max_length)
        )
        tokens, score = found["tokens"], found["score"]
        n_best = self.tokenizer.decode(tokens)
        n_best.set_shape([None, tokens.shape[1]])
        return {
            "text": n_best[:, 0],
            "score": score[:, 0],
            "n_best": n_best,
            "n_best_score": score,
            "tokens": tokens[:, 0],
            "pieces": self.tokenizer.to_pieces(tokens[:, 0]),
            "weights": self.weigh(features, tokens[:, 0]),
        }

    def weigh(self, features, tokens):
        """How much each token (B, T) read of each region: (B, T, rows, columns), in all 1.

        Zeros for a model that looks but once.
        """
        rows, columns = self.model.grid()
        batch_size, length = tf.unstack(tf.shape(tokens))
        target = tf.concat([tf.fill([batch_size, 1], START), tokens[:, :-1]], axis=1)
        maps = self.model.attention_maps({"features": features, "target": target})
        if not maps:
            return tf.zeros([batch_size, length, rows, columns])
        weights = tf.reduce_mean(maps["decoder/cross"], axis=1)
        weights = tf.where((tokens != PAD)[:, :, None], weights, 0.0)
        return tf.reshape(weights, [-1, length, rows, columns])
