"""Names, shapes and axes of another library, on a layout of two lines."""

import numpy as np

from tfx_transformer.convert.layout import FLAX, TORCH, Layout

NAMES = {
    "self_attention/query": "{block}attn.qkv.{leaf}[query]",
    "key": "{block}attn.qkv.{leaf}[key]",
    "value": "{block}attn.qkv.{leaf}[value]",
    "mlp/up": "{block}up.{leaf}",
    "patches": "{begin}stem.{leaf}",
}
QKV = "net.blocks.3.attn.qkv.weight"


def layout(leaves=TORCH):
    return Layout("some", "(net.)", "{begin}blocks.{i}.", (), NAMES, leaves, begin="net.")


def test_our_names_become_theirs():
    assert layout().sources("block_12/mlp/up/bias", None) == ["net.blocks.12.up.bias"]
    assert layout().sources("patches/kernel", None) == ["net.stem.weight"]
    assert layout(FLAX).sources("patches/kernel", None) == ["net.stem.kernel"]
    assert layout().sources("block_3/self_attention/key_value/kernel", None) == [
        f"{QKV}[key]",
        f"{QKV}[value]",
    ]
    assert layout().sources("last_norm/scale", None) == []


def test_blocks_of_encoder_and_decoder_are_blocks():
    names = {"cross_key": "{block}k.{leaf}", "cross_value": "{block}v.{leaf}"}
    own = Layout("some", "", "blocks.{i}.", (), names | {"encoder_norm": "norm.{leaf}"})
    assert own.sources("decoder_7/cross_attention/key_value/bias", None) == [
        "blocks.7.k.bias",
        "blocks.7.v.bias",
    ]
    assert own.sources("encoder_norm/scale", None) == ["norm.weight"]


def test_keys_and_values_come_out_side_by_side(draw):
    stored = draw(3 * 4, 5)  # (out, in), queries above keys above values
    entries = layout().cut(QKV, stored, None) | {"other": draw(2)}
    own, wrong = layout().take(entries, "block_3/self_attention/key_value/kernel", (5, 8), None)
    assert wrong == [] and list(entries) == [f"{QKV}[query]", "other"]
    np.testing.assert_array_equal(own, np.concatenate([stored[4:8].T, stored[8:].T], axis=1))


def test_kernels_are_turned_from_torch_alone(draw):
    patches = draw(6, 3, 4, 4)  # (D, C, P, P)
    own, _ = layout().take({"net.stem.weight": patches}, "patches/kernel", (4, 4, 3, 6), None)
    np.testing.assert_array_equal(own, np.einsum("dcpq->pqcd", patches))
    square = draw(4, 4)
    name = "block_0/mlp/up/kernel"
    own, _ = layout(FLAX).take({"net.blocks.0.up.kernel": square}, name, (4, 4), None)
    np.testing.assert_array_equal(own, square)


def test_what_is_wrong_is_said(draw):
    name = "block_0/mlp/up/kernel"
    assert layout().take({}, name, (2, 3), None) == (
        None,
        ["net.blocks.0.up.weight is missing, must be (3, 2) for block_0/mlp/up/kernel"],
    )
    _, wrong = layout().take({"net.blocks.0.up.weight": draw(2, 3)}, name, (2, 3), None)
    assert wrong == ["net.blocks.0.up.weight must be (3, 2) for block_0/mlp/up/kernel; got (2, 3)"]
    assert layout().take({}, "last_norm/scale", (2,), None)[1] == [
        "last_norm/scale of the model has no counterpart in some weights"
    ]
