"""CTranslate2: its translators as Translators of ours, read without CTranslate2.

    translator = load_ctranslate2("aren-transliteration", cut="characters")
    translator(["محمد"])

The folder has model.bin (float32, float16, bfloat16, int16 or int8) and its vocabularies, as .txt
or .json; newer ones have config.json. How a text is cut into tokens is no part of the format.

What comes out is what CTranslate2 gives with compute_type="float32", token by token: greedy with
decoder={"kind": "greedy", "min_length": 1}, and its beam with length_penalty=0, which is `DECODER`.
With a length penalty it stops at another place than ours, and may find another sentence. Padding
and the token that starts a sentence never come out here; there they may, and do not.
"""

import json
import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.checks import check_choice
from tfx_transformer.convert.checkpoint import fill
from tfx_transformer.convert.ctranslate2_file import ModelFile, read_model_file
from tfx_transformer.convert.layout import Layout
from tfx_transformer.convert.vocabulary import NAMES, Tables, Vocabulary
from tfx_transformer.data.pieces import PieceTokenizer, encode_bare
from tfx_transformer.models.transformer import Transformer
from tfx_transformer.translator import Translator

DECODER = {"kind": "beam", "width": 4, "length_penalty": 0.0, "min_length": 1}
HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # of files that do not say
ACTIVATIONS = ("relu", "gelu_tanh", "swish", "gelu")  # by their numbers; others are refused
PADDING = ("<blank>", "<pad>")
PARTS = ("encoder", "decoder")
REFUSED = {  # a pattern of names → why the model cannot be ours
    r".*/relative_": "relative positions are computed in another way than ours",
    r".*/rotary_": "rotary positions are not read",
    r".*/num_heads_kv$": "grouped heads are not read",
    r".*/linear_0_noact/": "gated feed-forward layers are not read",
    r".*/layernorm_embedding/": "our Transformer has no norm behind its embeddings",
    r".*/(shared|input|post_attention|pre_feedforward)_layer_norm/": "blocks differ from ours",
    r".*/weight_zero$": "weights of 4 bits are not read",
    r"encoder/embeddings_[1-9]": "a source of several features is not read",
    r".*/project_(in|out)/": "our Transformer does not project its embeddings",
}


@dataclass(frozen=True)
class CTranslate2Layout(Layout):
    """Queries, keys and values in one matrix; of cross-attention, keys and values."""

    def words(self, kind, number, model):
        return {"kind": kind, "i": number}

    def cut(self, name, array, model):
        parts = 1
        if "/self_attention/linear_0/" in name:
            parts = 3
        elif "/attention/linear_1/" in name:
            parts = 2
        if parts == 1:
            return {name: array}
        return {f"{name}[{i}]": part for i, part in enumerate(np.array_split(array, parts))}

    def is_turned(self, weight):
        return weight.endswith("/kernel")


CTRANSLATE2 = CTranslate2Layout(
    family="CTranslate2",
    mark="(encoder)/layer_0/",
    block="{kind}/layer_{i}/",
    head=(),
    leaves={"kernel": "weight", "bias": "bias", "scale": "gamma", "offset": "beta"},
    names=NAMES
    | {
        "source_position": "source_positions",
        "target_position": "target_positions",
        "self_attention/query": "{block}self_attention/linear_0/{leaf}[0]",
        "key": "{block}self_attention/linear_0/{leaf}[1]",
        "value": "{block}self_attention/linear_0/{leaf}[2]",
        "self_attention/output": "{block}self_attention/linear_1/{leaf}",
        "self_norm": "{block}self_attention/layer_norm/{leaf}",
        "cross_attention/query": "{block}attention/linear_0/{leaf}",
        "cross_key": "{block}attention/linear_1/{leaf}[0]",
        "cross_value": "{block}attention/linear_1/{leaf}[1]",
        "cross_attention/output": "{block}attention/linear_2/{leaf}",
        "cross_norm": "{block}attention/layer_norm/{leaf}",
        "mlp/up": "{block}ffn/linear_0/{leaf}",
        "mlp/down": "{block}ffn/linear_1/{leaf}",
        "mlp_norm": "{block}ffn/layer_norm/{leaf}",
        "encoder_norm": "encoder/layer_norm/{leaf}",
        "decoder_norm": "decoder/layer_norm/{leaf}",
    },
)


class BareTranslator(Translator):
    """Of a model whose sources have no END."""

    def encode(self, text):
        return encode_bare(self.source_tokenizer, text, self.max_length)


def load_ctranslate2(
    folder,
    cut: str = "spaces",
    ends: bool | None = None,
    decoder=None,
    max_length: int = 256,
    jit_compile: bool = False,
) -> Translator:
    """A folder of CTranslate2 as a `Translator`, to use, to export or to go on training.

    Args:
        folder: where the files are.
        cut: what cuts a text into tokens: "spaces", "characters" or "sentencepiece", the models
            source.spm and target.spm in the folder.
        ends: whether </s> stands behind each source; as the folder says if None. For a Marian it
            must be True, or </s> in the text: what CTranslate2 makes of one expects to be given it.
        decoder: a name in DECODERS, or a dict of its options; `DECODER` if None.
        max_length: as of `Translator`; also how many positions the model has, where it has them
            from a formula.
        jit_compile: as of `Translator`.
    """
    check_choice("spaces", "characters", "sentencepiece", cut=cut)
    folder = Path(folder)
    file = read_model_file(folder / "model.bin")
    config = read_config(folder, file)
    tables = take_tables(file.arrays, *read_vocabularies(folder, file, config))
    options = transformer_options(file, config) | tables.options()
    positions = take_positions(file.arrays, options["dim"], max_length)
    length = min(map(len, positions.values()))
    model = Transformer(**options, position={"kind": "learned", "max_length": length})
    model.build({"source": (None, None), "target": (None, None)})
    weights = {name: array for name, array in file.arrays.items() if array.ndim}
    fill(model, weights | positions | tables.entries(), CTRANSLATE2, head=True)
    ends = config["add_source_eos"] if ends is None else ends
    return (Translator if ends else BareTranslator)(
        model,
        make_tokenizer(tables.source_vocabulary, folder / "source.spm", cut),
        make_tokenizer(tables.target_vocabulary, folder / "target.spm", cut),
        decoder or DECODER,
        min(max_length, length),
        jit_compile,
    )


def make_tokenizer(vocabulary: Vocabulary, path: Path, cut: str) -> PieceTokenizer:
    if cut != "sentencepiece":
        return PieceTokenizer(vocabulary.pieces, cut)
    return PieceTokenizer(vocabulary.pieces, path.read_bytes(), codes=True)


def read_config(folder: Path, file: ModelFile) -> dict[str, Any]:
    """config.json; of older models what the arrays say, which have no such file."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) if path.exists() else {}
    for name in ("bos", "eos"):
        config.setdefault(f"add_source_{name}", bool(file.arrays.get(f"with_source_{name}", 0)))
    starts = file.arrays.get("with_target_bos", 1)
    config.setdefault("decoder_start_token", "<s>" if starts else "</s>")
    if config["add_source_bos"]:
        raise ValueError("add_source_bos must be false: our sources begin with their first token")
    return config


def read_vocabularies(folder: Path, file: ModelFile, config) -> tuple[Vocabulary, Vocabulary]:
    """Of the source and of the target."""
    shared = read_tokens(folder / "shared_vocabulary")
    found = []
    for side in ("source", "target"):
        tokens = shared or read_tokens(folder / f"{side}_vocabulary")
        if tokens is None:
            raise FileNotFoundError(f"{folder} has no {side}_vocabulary.json, nor .txt")
        unk = config.get("unk_token") or "<unk>"
        tokens = tokens if unk in tokens else [*tokens, unk]
        ids = {token: i for i, token in enumerate(tokens)}
        start = ids.get(config["decoder_start_token"])
        if file.arrays.get("decoder/start_from_zero_embedding", 0):
            start = None
        pad = next((ids[token] for token in PADDING if token in ids), None)
        end = ids[config.get("eos_token") or "</s>"]
        found.append(Vocabulary(tokens, pad, start, end, ids[unk]))
    return found[0], found[1]


def read_tokens(path: Path) -> list[str] | None:
    """A list in JSON, or a token in each line; None if there is neither file."""
    if path.with_suffix(".json").exists():
        return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    if path.with_suffix(".txt").exists():
        return path.with_suffix(".txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return None


def take_tables(arrays, source: Vocabulary, target: Vocabulary) -> Tables:
    """Takes all that has a row for each token out of the arrays."""
    several = arrays.pop("encoder/embeddings_0/weight", None)
    output = arrays.pop("decoder/projection/weight")
    tables = Tables(
        source=arrays.pop("encoder/embeddings/weight", several),
        target=arrays.pop("decoder/embeddings/weight"),
        output=output,
        bias=arrays.pop("decoder/projection/bias", np.zeros(len(output), "float32")),
        source_vocabulary=source,
        target_vocabulary=target,
    )
    for side in ("source", "target"):
        rows, tokens = len(getattr(tables, side)), len(getattr(tables, f"{side}_vocabulary").tokens)
        if rows != tokens:
            raise ValueError(f"the {side} must have a vector for each token; got {rows}, {tokens}")
    return tables


def take_positions(arrays, dim: int, max_length: int) -> dict[str, np.ndarray]:
    """The positions of both sides, (max_length, D), from the arrays or by the formula."""
    formula = sines(max_length, dim)
    return {
        f"{side}_positions": arrays.pop(f"{part}/position_encodings/encodings", formula)
        for side, part in zip(("source", "target"), PARTS, strict=True)
    }


def sines(length: int, dim: int) -> np.ndarray:
    """Of OpenNMT-tf: positions from 1, sines left of cosines, and waves up to 2π·10000 itself."""
    frequency = np.exp(-math.log(10_000) * np.arange(dim // 2) / (dim // 2 - 1))
    angle = np.arange(1, length + 1)[:, None] * frequency
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype("float32")


def transformer_options(file: ModelFile, config: dict[str, Any]) -> dict[str, Any]:
    """Of a `Transformer` that computes the same, but for what its tables say."""
    if file.kind not in ("TransformerSpec", *HEADS) or file.revision < 2:
        raise ValueError(
            "model.bin must be a TransformerSpec of revision 2 or more; "
            f"got {file.kind} of revision {file.revision}"
        )
    for name in file.arrays:
        for pattern, reason in REFUSED.items():
            if re.match(pattern, name):
                raise ValueError(f"{reason}; the model has {name}")
    check_scale(file.arrays)
    both = partial(of_both, file.arrays)
    if both("alibi", 0):
        raise ValueError("linear biases of attention are not read; the model has alibi")
    activation = int(both("activation", 0))
    if activation >= len(ACTIVATIONS):
        known = ", ".join(f"{i} ({name})" for i, name in enumerate(ACTIVATIONS))
        raise ValueError(f"activation must be one of {known}; got {activation}")
    qkv_bias = "encoder/layer_0/self_attention/linear_0/bias" in file.arrays
    return {
        "depth": count_blocks(file.arrays, "encoder"),
        "decoder_depth": count_blocks(file.arrays, "decoder"),
        "num_heads": int(both("num_heads", HEADS.get(file.kind, 8))),
        "mlp_dim": len(file.arrays["encoder/layer_0/ffn/linear_0/weight"]),
        "attention": {"kind": "multi_head", "qkv_bias": qkv_bias},
        "activation": ACTIVATIONS[activation],
        "norm": {"kind": "layer", "epsilon": config.get("layer_norm_epsilon") or 1e-5},
        "norm_first": bool(both("pre_norm", 1)),
        "dropout": 0.0,
    }


def of_both(arrays, name: str, default):
    """A number that encoder and decoder share; in old files it belongs to none of them."""
    encoder, decoder = (arrays.get(f"{part}/{name}", arrays.get(name, default)) for part in PARTS)
    if encoder != decoder:
        raise ValueError(f"encoder and decoder must be alike; got {name} {encoder} and {decoder}")
    return encoder


def count_blocks(arrays, part: str) -> int:
    pattern = rf"{part}/layer_\d+/ffn/linear_0/weight$"
    return sum(re.match(pattern, name) is not None for name in arrays)


def check_scale(arrays) -> None:
    """Embeddings must be multiplied by √D, which a whole number says is so, or a float itself."""
    root = math.sqrt(arrays["decoder/layer_0/ffn/layer_norm/gamma"].size)
    for part in PARTS:
        old = arrays.get(f"{part}/embeddings/multiply_by_sqrt_depth", np.int8(1))
        scale = arrays.get(f"{part}/scale_embeddings", old)
        is_root = scale == 1 if scale.dtype == "int8" else math.isclose(scale, root, rel_tol=1e-5)
        if not is_root:
            raise ValueError(f"{part}/scale_embeddings must be √D = {root:.5g}; got {scale:.5g}")
