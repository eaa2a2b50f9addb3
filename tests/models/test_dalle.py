"""DALL·E: positions, masks, allowed tokens and decoding."""

import keras
import numpy as np
import pytest
from keras import ops

from tfx_transformer.decoding import GreedyDecoder
from tfx_transformer.models import MODELS, create_model
from tfx_transformer.models import dalle as module
from tfx_transformer.models.dalle import attention_mask, block_kinds, slice_mask

ROWS, COLUMNS, TEXT = 4, 3, 5  # START and four text tokens
OPTIONS = {"vocab_size": 9, "text_length": TEXT - 1, "grid": (ROWS, COLUMNS)}


def numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture
def model(randomize):
    return randomize(create_model("dalle", "test", **OPTIONS, depth=3))


@pytest.fixture
def tokens():
    rng = np.random.default_rng(0)
    image = rng.integers(9 + 4, 9 + 4 + 7, (2, ROWS * COLUMNS))
    return np.concatenate([[[1, 4, 5, 11, 12], [1, 8, 5, 4, 12]], image], axis=1)[:, :-1]


def may_attend(kind, query, key, kernel):
    """The rules of figure 11, for two positions."""
    if key > query:
        return False
    if query < TEXT or key < TEXT or kind == "full":
        return True
    query, key = query - TEXT, key - TEXT
    if kind == "row":  # back to the cell above
        return key >= query - COLUMNS
    if kind == "column":
        return query % COLUMNS == key % COLUMNS
    half = kernel // 2
    area = [dy * COLUMNS + dx for dy in range(-half, 1) for dx in range(-half, half + 1)]
    return key - query in area


@pytest.mark.parametrize("kernel", [3, 5])
@pytest.mark.parametrize("kind", ["full", "row", "column", "convolution"])
def test_masks_are_those_of_the_paper(kind, kernel, monkeypatch):
    monkeypatch.setattr(module, "KERNEL", kernel)
    mask = attention_mask(kind, TEXT, ROWS, COLUMNS)
    size = TEXT + ROWS * COLUMNS
    expected = [[may_attend(kind, t, s, kernel) for s in range(size)] for t in range(size)]
    np.testing.assert_array_equal(mask, expected)


def test_wide_images_do_not_wrap_a_whole_row(monkeypatch):
    monkeypatch.setattr(module, "KERNEL", 3)
    mask = attention_mask("convolution", 1, 3, 8)[1:, 1:]
    assert np.nonzero(mask[12])[0].tolist() == [3, 4, 5, 11, 12]


def test_blocks_alternate_and_the_last_is_a_convolution():
    assert block_kinds(1) == ["convolution"]
    kinds = ["row", "column", "row", "row", "row", "column", "row", "convolution"]
    assert block_kinds(8) == kinds
    assert block_kinds(64).count("column") == 16


def test_each_block_attends_as_its_kind_says(model, tokens):
    maps = model.attention_maps(tokens)
    for i, kind in enumerate(["row", "column", "convolution"]):
        mask = attention_mask(kind, TEXT, ROWS, COLUMNS)[:-1, :-1]
        weights = numpy(maps[f"block_{i}/self"])
        assert ((weights > 0) == mask).all(), kind


def test_full_masks_let_every_position_see_its_past(randomize, tokens):
    model = randomize(create_model("dalle", "test", **OPTIONS, masks="full"))
    for weights in model.attention_maps(tokens).values():
        assert ((numpy(weights) > 0) == np.tri(tokens.shape[1], dtype=bool)).all()


def test_image_positions_are_a_row_plus_a_column(model):
    table = numpy(model.position_table())
    assert table.shape == (TEXT + ROWS * COLUMNS, 16) and model.max_length == len(table)
    text, row, column = (numpy(x) for x in model.positions.values())
    np.testing.assert_allclose(table[:TEXT], text)
    for i in range(ROWS):
        for j in range(COLUMNS):
            np.testing.assert_allclose(table[TEXT + i * COLUMNS + j], row[i] + column[j], atol=1e-6)


def test_text_follows_text_and_image_tokens_follow_the_text(model, tokens):
    probs = numpy(ops.softmax(model(tokens)))
    assert probs.shape[-1] == 9 + 4 + 7 == model.num_tokens
    text, image = slice(0, 13), slice(13, 20)
    np.testing.assert_allclose(probs[:, : TEXT - 1, text].sum(axis=-1), 1, atol=1e-5)
    np.testing.assert_allclose(probs[:, TEXT - 1 :, image].sum(axis=-1), 1, atol=1e-5)
    assert (probs[:, : TEXT - 1, image] == 0).all() and (probs[:, TEXT - 1 :, text] == 0).all()


def test_every_position_has_its_padding(model):
    ids = np.array([[4, 5, 0, 0], [0, 0, 0, 0], [8, 4, 4, 6]])
    expected = [[4, 5, 11, 12], [9, 10, 11, 12], [8, 4, 4, 6]]
    np.testing.assert_array_equal(numpy(model.prompt(ids)), expected)


def test_the_past_does_not_see_the_future(model, tokens):
    whole, changed = numpy(model(tokens)), tokens.copy()
    changed[:, 9:] = 14 + changed[:, 9:] % 5
    np.testing.assert_allclose(numpy(model(changed))[:, :9], whole[:, :9], atol=1e-5)


def test_decoding_gives_the_tokens_of_an_image(model, tokens):
    prompt = ops.convert_to_tensor(tokens[:, 1:TEXT])
    length = model.max_length - 1
    state = model.initial_state(prompt, length)
    found = GreedyDecoder()(
        model.step, state, 2, length, 1, 2, 0, prefix=prompt, num_known=TEXT - 1
    )
    rows = numpy(found["tokens"])[:, 0]
    np.testing.assert_array_equal(rows[:, : TEXT - 1], tokens[:, 1:TEXT])
    assert rows.shape == (2, length) and rows[:, TEXT - 1 :].min() >= model.first_image_token
    inputs = np.pad(rows[:, :-1], [(0, 0), (1, 0)], constant_values=1)
    best = numpy(model(inputs)).argmax(axis=-1)
    np.testing.assert_array_equal(best[:, TEXT - 1 :], rows[:, TEXT - 1 :])


def test_a_cache_may_be_longer_than_the_model(tokens):
    mask = attention_mask("row", TEXT, ROWS, COLUMNS)
    part = numpy(slice_mask(mask, 3, 4, 20))
    np.testing.assert_array_equal(part[0, 0, :, :17], mask[3:7])


def test_half_precision_gives_finite_logits(tokens):
    model = create_model("dalle", "test", **OPTIONS, dtype="mixed_float16")
    assert np.isfinite(numpy(ops.cast(model(tokens), "float32"))).all()


def test_the_model_of_the_paper_has_12_billion_parameters():
    """12 D² per block and the embeddings of 16,384 + 256 + 8,192 tokens and of the positions."""
    options = module.DALLE.variants["paper"]
    dim, depth = options["dim"], options["depth"]
    assert options["mlp_dim"] == 4 * dim and dim // options["num_heads"] == 64
    tokens = 16_384 + 256 + 8192 + 257 + 2 * 32
    count = depth * (12 * dim**2 + 13 * dim) + tokens * dim + 2 * dim
    assert count == MODELS["dalle"].published.counts["paper"] and round(count / 1e9) == 12
    small = module.DALLE.variants["small"] | {"vocab_size": 50}
    model = create_model("dalle", **small)
    tokens = 50 + 16 + 128 + 17 + 16
    assert model.count_params() == 4 * (12 * 128**2 + 13 * 128) + tokens * 128 + 2 * 128


@pytest.mark.parametrize("option", ["text_length", "codebook_size"])
def test_sizes_are_positive(option):
    with pytest.raises(ValueError, match=f"{option} must be a whole number above zero"):
        create_model("dalle", "test", **{"vocab_size": 9, option: 0})
    with pytest.raises(ValueError, match="columns must be a whole number above zero"):
        create_model("dalle", "test", vocab_size=9, grid=(2, 0))


def test_a_keras_file_has_the_same_logits(model, tokens, tmp_path):
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(numpy(loaded(tokens)), numpy(model(tokens)), atol=1e-6)
