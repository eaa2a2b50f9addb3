"""A model and a decoder: from what is to be said to the ids of the best ways to say it."""

from dataclasses import replace

import keras
from keras import ops

from tfx_transformer.data.tokenizer import END, PAD, START
from tfx_transformer.decoding import SamplingDecoder


def search(model, decoder, inputs, batch_size, room, limit=None, prefix=None):
    """Inputs of a model that generates → tokens (B, n_best, room), score, length (B, n_best).

    Args:
        model: has `initial_state` and `step`.
        decoder: one of `decoding`.
        inputs: as of the model, without a target.
        batch_size: B.
        room: for the tokens of a sentence, END included.
        limit: a smaller room of each sentence, (B,).
        prefix: (B, P) forced first tokens, padded.
    """
    values = [(variable, ops.copy(variable)) for variable in model.variables]
    more = {"limit": limit, "prefix": prefix}
    with keras.StatelessScope(state_mapping=values) as scope:  # reads a weight but once
        state = model.initial_state(inputs, room)
        found = decoder(model.step, state, batch_size, room, START, END, PAD, **more)
    seed = getattr(decoder, "seed", None)
    if isinstance(seed, keras.random.SeedGenerator):  # the next call draws other numbers
        seed.state.assign(scope.get_current_value(seed.state))
    return {name: found[name] for name in ("tokens", "score", "length")}


def with_own_seed(decoder):
    """The decoder, and the seeds that a SavedModel must keep.

    What draws without a seed gets one that moves: in a graph it would draw the same at each call.
    """
    if not isinstance(decoder, SamplingDecoder) or decoder.seed is not None:
        return decoder, []
    seed = keras.random.SeedGenerator()
    return replace(decoder, seed=seed), [seed.state.value]
