"""Decoders inside compiled functions give what they give eagerly."""

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding import DECODERS

PAD, START, END = 0, 1, 2
SPECS = [
    {"kind": "greedy"},
    {"kind": "sample", "seed": 3, "n_best": 2, "top_p": 0.8},
    {"kind": "beam", "width": 3, "n_best": 2},
    {"kind": "beam", "width": 1, "early_stop": False},
]
CONSTRAINTS = {"min_length": 2, "no_repeat_ngram": 2, "forbidden": (4,)}

on_tensorflow = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="tf.function is TensorFlow's"
)
on_jax = pytest.mark.skipif(keras.backend.backend() != "jax", reason="jax.jit is JAX's")


def decode(model, decoder, sentence, prefix, limit):
    """Decode the model's sentences by number (B,), with all options in use."""
    batch_size = ops.shape(sentence)[0]
    carry = {"code": ops.zeros((batch_size,), "int32")}
    state = {"constant": {"sentence": sentence}, "carry": carry}
    ids = {"start_id": START, "end_id": END, "pad_id": PAD}
    return decoder(
        model.step, state, batch_size, model.max_length, **ids, prefix=prefix, limit=limit
    )


def check_equal(result, expected):
    assert set(result) == {"tokens", "score", "log_prob", "length"}
    for name, value in expected.items():
        np.testing.assert_allclose(result[name], ops.convert_to_numpy(value), rtol=1e-5)


@pytest.fixture
def model(make_model):
    return make_model(batch_size=4, vocab_size=8, max_length=6)


@pytest.fixture
def inputs():
    """Numbers of sentences, prefixes and limits of a batch of any size."""

    def make(batch_size):
        prefix = np.array([[PAD, PAD], [5, PAD], [4, 4], [6, PAD]], "int32")[:batch_size]
        limit = np.array([6, 5, 6, 4], "int32")[:batch_size]
        return [
            ops.convert_to_tensor(x) for x in (np.arange(batch_size, dtype="int32"), prefix, limit)
        ]

    return make


def dynamic_function(model, decoder):
    import tensorflow as tf

    shapes = ([None], [None, None], [None])
    signature = [tf.TensorSpec(shape, tf.int32) for shape in shapes]
    return tf.function(
        lambda *args: decode(model, decoder, *args), input_signature=signature, autograph=False
    )


@on_tensorflow
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_tf_function_decodes_batches_of_any_size(spec, model, inputs):
    decoder = DECODERS.make(spec, **CONSTRAINTS)
    function = dynamic_function(model, decoder)
    for batch_size in (1, 3, 4):
        expected = decode(model, decoder, *inputs(batch_size))
        check_equal(function(*inputs(batch_size)), expected)


@on_tensorflow
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_xla_decodes_the_same(spec, model, inputs):
    import tensorflow as tf

    decoder = DECODERS.make(spec, **CONSTRAINTS)
    function = tf.function(
        lambda *args: decode(model, decoder, *args), jit_compile=True, autograph=False
    )
    result = function(*inputs(3))
    if spec["kind"] == "sample":  # XLA has another random generator
        check_equal(result, function(*inputs(3)))
        for b, n in np.ndindex(*result["length"].shape):
            tokens = result["tokens"][b, n, : result["length"][b, n]].numpy()
            np.testing.assert_allclose(result["score"][b, n], model.log_prob(b, tokens), rtol=1e-5)
    else:
        check_equal(result, decode(model, decoder, *inputs(3)))


@on_tensorflow
@pytest.mark.parametrize(
    "spec", [{"kind": "beam"}, {"kind": "sample", "top_k": 9, "seed": 1}], ids=str
)
def test_xla_never_sorts_the_vocabulary(spec):
    """XLA recognizes top_k by a pattern that a slice of the result breaks: 60 times slower."""
    import tensorflow as tf

    vocab_size = 3001
    table = np.random.default_rng(0).normal(size=(5, vocab_size)).astype("float32")

    def step(tokens, state, index):
        return ops.take(table, tokens % 5, axis=0), state

    @tf.function(jit_compile=True, autograph=False)
    def function(state):
        return DECODERS.make(spec)(step, {"constant": (), "carry": state}, 2, 4, START, END, PAD)

    compiled = function.experimental_get_compiler_ir(tf.zeros((2,)))(stage="optimized_hlo")
    sorts = [line for line in compiled.splitlines() if " sort(" in line]
    assert not [line for line in sorts if str(vocab_size) in line]
    assert 'custom_call_target="TopK"' in compiled


@on_tensorflow
@pytest.mark.parametrize("spec", [SPECS[1], SPECS[2]], ids=str)
def test_a_saved_model_decodes_the_same(spec, model, inputs, tmp_path):
    import tensorflow as tf

    decoder = DECODERS.make(spec, **CONSTRAINTS)
    module = tf.Module()
    module.decode = dynamic_function(model, decoder)
    tf.saved_model.save(module, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    check_equal(loaded.decode(*inputs(3)), decode(model, decoder, *inputs(3)))


@on_tensorflow
def test_a_saved_model_with_a_seed_generator_samples_anew_in_each_call(model, inputs, tmp_path):
    import tensorflow as tf

    seed = keras.random.SeedGenerator(1)
    module = tf.Module()
    module.decode = dynamic_function(model, DECODERS.make("sample", seed=seed, n_best=9))
    module.seed = seed.state.value
    tf.saved_model.save(module, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    once, again = (loaded.decode(*inputs(2))["tokens"].numpy() for _ in range(2))
    assert (once != again).any()


@on_tensorflow
@pytest.mark.parametrize("kind", DECODERS)
def test_a_step_may_lose_its_static_shapes(kind, model):
    import tensorflow as tf

    step = model.step

    def shapeless_step(tokens, state, index):
        logits, state = step(tokens, state, index)
        code = tf.compat.v1.placeholder_with_default(state["carry"]["code"], [None])
        logits = tf.compat.v1.placeholder_with_default(logits, [None, 8])
        return logits, {"constant": None, "carry": {"code": code}}

    decoder = DECODERS.make(kind, **({"seed": 1} if kind == "sample" else {}))

    @tf.function
    def function():
        ids = {"start_id": START, "end_id": END, "pad_id": PAD}
        return decoder(shapeless_step, model.state(), tf.constant(4), 6, **ids)

    check_equal(function(), model.run(decoder))


@on_jax
@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_jax_jit_decodes_the_same(spec, model, inputs):
    import jax

    decoder = DECODERS.make(spec, **CONSTRAINTS)
    function = jax.jit(lambda *args: decode(model, decoder, *args))
    check_equal(function(*inputs(3)), decode(model, decoder, *inputs(3)))
