"""Names, shapes and axes of another library, with a small layout."""

import numpy as np

from tfx_transformer.convert.layout import FLAX, QKV, TORCH, Layout

NAMES = {
    "self_attention/qkv": "{block}attn.qkv.{leaf}[{part}]",
    "mlp/up": "{block}up.{leaf}",
    "patches": "{prefix}stem.{leaf}",
}
FUSED = "net.blocks.3.attn.qkv.weight"


def layout(leaves=TORCH, **options):
    start = ("some", "(net.)", "{prefix}blocks.{i}.", (), NAMES, leaves)
    return Layout(*start, fused={".qkv.": QKV}, prefix="net.", **options)


def test_our_names_are_mapped_to_theirs():
    assert layout().stored_names("block_12/mlp/up/bias", None) == ["net.blocks.12.up.bias"]
    assert layout().stored_names("patches/kernel", None) == ["net.stem.weight"]
    assert layout(FLAX).stored_names("patches/kernel", None) == ["net.stem.kernel"]
    assert layout().stored_names("block_3/self_attention/key_value/kernel", None) == [
        f"{FUSED}[key]",
        f"{FUSED}[value]",
    ]
    assert layout().stored_names("last_norm/scale", None) == []


def test_names_of_encoder_and_decoder_blocks_are_mapped():
    names = {"cross_attention/key_value": "{block}{part[0]}.{leaf}"}
    blocks = Layout("some", "", "blocks.{i}.", (), names | {"encoder_norm": "norm.{leaf}"})
    assert blocks.stored_names("decoder_7/cross_attention/key_value/bias", None) == [
        "blocks.7.k.bias",
        "blocks.7.v.bias",
    ]
    assert blocks.stored_names("encoder_norm/scale", None) == ["norm.weight"]


def test_keys_and_values_are_concatenated(draw):
    stored = draw(3 * 4, 5)  # (out, in): queries, keys, values
    arrays = layout().split(FUSED, stored, None) | {"other": draw(2)}
    value, problems = layout().pop_weight(
        arrays, "block_3/self_attention/key_value/kernel", (5, 8), None
    )
    assert problems == [] and list(arrays) == [f"{FUSED}[query]", "other"]
    np.testing.assert_array_equal(value, np.concatenate([stored[4:8].T, stored[8:].T], axis=1))


def test_only_kernels_of_pytorch_are_transposed(draw):
    patches = draw(6, 3, 4, 4)  # (D, C, P, P)
    value, _ = layout().pop_weight(
        {"net.stem.weight": patches}, "patches/kernel", (4, 4, 3, 6), None
    )
    np.testing.assert_array_equal(value, np.einsum("dcpq->pqcd", patches))
    square = draw(4, 4)
    name = "block_0/mlp/up/kernel"
    value, _ = layout(FLAX, transposed=False).pop_weight(
        {"net.blocks.0.up.kernel": square}, name, (4, 4), None
    )
    np.testing.assert_array_equal(value, square)


def test_missing_and_wrongly_shaped_arrays_are_reported(draw):
    name = "block_0/mlp/up/kernel"
    assert layout().pop_weight({}, name, (2, 3), None) == (
        None,
        ["net.blocks.0.up.weight is missing, must be (3, 2) for block_0/mlp/up/kernel"],
    )
    _, problems = layout().pop_weight({"net.blocks.0.up.weight": draw(2, 3)}, name, (2, 3), None)
    assert problems == [
        "net.blocks.0.up.weight must be (3, 2) for block_0/mlp/up/kernel; got (2, 3)"
    ]
    assert layout().pop_weight({}, "last_norm/scale", (2,), None)[1] == [
        "last_norm/scale of the model has no counterpart in some weights"
    ]


def test_weights_are_stored_as_they_are_loaded():
    rng = np.random.default_rng(0)
    shapes = {"query/kernel": (4, 6), "key_value/kernel": (4, 12), "key_value/bias": (12,)}
    ours = {f"block_3/self_attention/{name}": rng.normal(size=x) for name, x in shapes.items()}
    ours |= {"patches/kernel": rng.normal(size=(2, 2, 3, 5)), "last_norm/scale": np.ones(5)}
    stored = layout().stored_arrays(ours, None)
    assert stored.keys() == {FUSED, "net.blocks.3.attn.qkv.bias", "net.stem.weight"}
    joint = [ours[f"block_3/self_attention/{name}/kernel"].T for name in ("query", "key_value")]
    np.testing.assert_allclose(stored[FUSED], np.concatenate(joint), rtol=1e-6)
    arrays = layout().split(FUSED, stored[FUSED], None)
    value, problems = layout().pop_weight(
        arrays, "block_3/self_attention/key_value/kernel", (4, 12), None
    )
    np.testing.assert_allclose(value, ours["block_3/self_attention/key_value/kernel"], rtol=1e-6)
    assert not problems and list(arrays) == [f"{FUSED}[query]"]
