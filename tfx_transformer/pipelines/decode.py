"""Runs a decoder on a model: model inputs in, token ids of the best sequences out."""

import inspect
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfx_transformer.data.text.tokenizer import END, PAD, START
from tfx_transformer.decoding import DECODERS, Decoder, SamplingDecoder


def decode(
    model,
    decoder,
    inputs,
    batch_size,
    max_length,
    limit=None,
    prefix=None,
    compact=False,
    random=None,
):
    """Decodes a batch → tokens (B, n_best, max_length), score and length (B, n_best).

    The inputs are those of the model without the target; `limit`, `prefix` and `random` are as in
    `Decoder`.
    Tokens of the prefix before the first PAD of any row are read in one pass. With `compact`
    sentences that are done leave the batch, and caches grow with the tokens in models that can
    `grow` them: faster, but not possible with XLA.
    """
    values = [(variable, ops.copy(variable)) for variable in model.variables]
    options = {"limit": limit, "prefix": prefix, "compact": compact, "random": random}
    if prefix is not None:
        options["num_known"] = count_known(prefix, max_length if limit is None else limit)
    with keras.StatelessScope(state_mapping=values) as scope:  # reads each variable only once
        can_grow = "grow" in inspect.signature(model.initial_state).parameters
        grow = {"grow": compact} if can_grow else {}
        state = model.initial_state(inputs, max_length, **grow)
        result = decoder(model.step, state, batch_size, max_length, START, END, PAD, **options)
    seed = getattr(decoder, "seed", None)
    if random is None and isinstance(
        seed, keras.random.SeedGenerator
    ):  # the next call samples other tokens
        seed.state.assign(scope.get_current_value(seed.state))
    return {name: result[name] for name in ("tokens", "score", "length")}


def add_missing_column(ids):
    """Ids (B, T) with at least one column, which models need and an empty batch does not have."""
    return tf.pad(ids, [[0, 0], [0, tf.cast(tf.shape(ids)[1] == 0, tf.int32)]])


def count_known(prefix, limit):
    """Number of first columns of a prefix (B, P) without PAD and END, less than every limit."""
    is_known = tf.reduce_all((prefix != PAD) & (prefix != END), axis=0)
    count = tf.reduce_sum(tf.math.cumprod(tf.cast(is_known, tf.int32)))
    count = tf.minimum(count, tf.reduce_min(limit) - 1)
    return tf.where(tf.shape(prefix)[0] > 0, tf.maximum(count, 0), 0)


def known_ids(ids, tokenizer):
    """The ids, those outside of the vocabulary as unknown: one of them harms only its own row."""
    return tf.where((ids >= 0) & (ids < tokenizer.vocab_size), ids, tokenizer.unk_id)


def text_outputs(tokenizer, tokens, n_best, score) -> dict[str, Any]:
    """The outputs that `GeneratedText` reads, for tokens (B, T), texts and scores (B, n_best)."""
    n_best.set_shape(score.shape)
    return {
        "text": n_best[:, 0],
        "score": score[:, 0],
        "n_best": n_best,
        "n_best_score": score,
        "tokens": tokens,
        "pieces": tokenizer.to_pieces(tokens),
    }


def cross_attention(model, inputs, tokens, size):
    """Attention from each token (B, T) to each of `size` inputs, S: (B, blocks, H, T, S).

    Rows sum to 1, those of padding to 0; a model without attention has no blocks.
    """
    target = tf.concat([tf.fill([tf.shape(tokens)[0], 1], START), tokens[:, :-1]], axis=1)
    maps = model.attention_maps(inputs | {"target": target})
    cross = [weights for name, weights in maps.items() if name.endswith("/cross")]
    if not cross:
        rows, length = tf.unstack(tf.shape(tokens))
        return tf.ensure_shape(tf.zeros([rows, 0, 0, length, size]), [None, 0, 0, None, None])
    weights = tf.cast(tf.stack(cross, axis=1), tf.float32)
    return tf.where((tokens != PAD)[:, None, None, :, None], weights, 0.0)


def mean_attention(weights):
    """The mean over blocks and heads: (B, blocks, H, T, S) → (B, T, S); zeros without blocks."""
    count = tf.cast(tf.shape(weights)[1] * tf.shape(weights)[2], tf.float32)
    return tf.math.divide_no_nan(tf.reduce_sum(weights, axis=(1, 2)), count)


def make_decoder(spec) -> tuple[Decoder, list[Any]]:
    """The decoder of a name or a dict of options, and the seed variables that an export must keep.

    A sampling decoder without a seed gets a seed variable: with a constant in its graph it would
    sample the same tokens at every call.
    """
    decoder = DECODERS.make(spec)
    if not isinstance(decoder, SamplingDecoder) or decoder.seed is not None:
        return decoder, []
    seed = keras.random.SeedGenerator()
    return replace(decoder, seed=seed), [seed.state.value]


def decoder_options(decoder: Decoder) -> dict[str, Any]:
    """The decoder's class and options as plain data."""
    kind = next(name for name, kind in DECODERS.items() if type(decoder) is kind)
    is_variable = isinstance(getattr(decoder, "seed", None), keras.random.SeedGenerator)
    return {"kind": kind} | vars(decoder) | ({"seed": None} if is_variable else {})
