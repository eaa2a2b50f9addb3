"""CTranslate2 translators as our `Translator`, read without the library.

    translator = load_ctranslate2("aren-transliteration", splitter="characters")
    translator(["محمد"])

The folder contains model.bin (float32, float16, bfloat16, int16 or int8) and vocabularies, as .txt
or .json; newer ones also config.json. The format does not contain a tokenizer.

The tokens are those of CTranslate2 with compute_type="float32": for greedy decoding with
decoder={"kind": "greedy", "min_length": 1}, and for its beam with length_penalty=0, which is
`DECODER`; with a length penalty add length_rule="power" and early_stop="full". Here padding and the
start token are never predicted; CTranslate2 allows them.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.checks import check_choice
from tfx_transformer.convert.checkpoint import assign_weights
from tfx_transformer.convert.ctranslate2_file import ModelFile, read_model_file
from tfx_transformer.convert.layout import QKV, Layout
from tfx_transformer.convert.options import check_sizes
from tfx_transformer.convert.vocabulary import TABLE_NAMES, EmbeddingTables, Vocabulary
from tfx_transformer.data.text.piece_tokenizer import end_empty_rows
from tfx_transformer.files import read_json, reading
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Translator

DECODER = {"kind": "beam", "width": 4, "length_penalty": 0.0, "min_length": 1}
HEADS = {"TransformerBase": 8, "TransformerBig": 16}  # of files without num_heads
ACTIVATIONS = ("relu", "gelu_tanh", "swish", "gelu")  # by their numbers in the file
PADDING = ("<blank>", "<pad>")
SIDES = {"source": "encoder", "target": "decoder"}
UNSUPPORTED = {  # a regular expression of names → why such a model cannot be loaded
    r".*/relative_": "relative positions differ from ours",
    r".*/rotary_": "rotary positions are not supported",
    r".*/num_heads_kv$": "grouped-query attention is not supported",
    r".*/linear_0_noact/": "gated feed-forward layers are not supported",
    r".*/layernorm_embedding/": "our Transformer has no norm after its embeddings",
    r".*/(shared|input|post_attention|pre_feedforward)_layer_norm/": "blocks differ from ours",
    r".*/weight_zero$": "4-bit weights are not supported",
    r"encoder/embeddings_[1-9]": "a source with several features is not supported",
    r".*/project_(in|out)/": "our Transformer does not project its embeddings",
}

CTRANSLATE2 = Layout(
    family="CTranslate2",
    pattern="(encoder)/layer_0/",
    block="{kind}/layer_{i}/",
    head=(),
    fused={"/self_attention/linear_0/": QKV, "/attention/linear_1/": ("key", "value")},
    leaves={"kernel": "weight", "bias": "bias", "scale": "gamma", "offset": "beta"},
    names=TABLE_NAMES
    | {
        "source_position": "source_positions",
        "target_position": "target_positions",
        "self_attention/qkv": "{block}self_attention/linear_0/{leaf}[{part}]",
        "self_attention/output": "{block}self_attention/linear_1/{leaf}",
        "self_norm": "{block}self_attention/layer_norm/{leaf}",
        "cross_attention/query": "{block}attention/linear_0/{leaf}",
        "cross_attention/key_value": "{block}attention/linear_1/{leaf}[{part}]",
        "cross_attention/output": "{block}attention/linear_2/{leaf}",
        "cross_norm": "{block}attention/layer_norm/{leaf}",
        "mlp/up": "{block}ffn/linear_0/{leaf}",
        "mlp/down": "{block}ffn/linear_1/{leaf}",
        "mlp_norm": "{block}ffn/layer_norm/{leaf}",
        "encoder_norm": "encoder/layer_norm/{leaf}",
        "decoder_norm": "decoder/layer_norm/{leaf}",
    },
)


class TranslatorWithoutSourceEnd(Translator):
    """A translator whose model was trained on sources without END."""

    add_source_end = False

    def end_rows(self, ids):
        return end_empty_rows(ids)


def load_ctranslate2(
    folder,
    splitter: str = "spaces",
    add_source_end: bool | None = None,
    decoder=None,
    max_length: int = 256,
    jit_compile: bool = False,
) -> Translator:
    """Loads a CTranslate2 folder as a `Translator`, to use, export or fine-tune.

    Args:
        folder: contains model.bin and the vocabularies.
        splitter: "spaces", "characters" or "sentencepiece", which reads source.spm and target.spm
            in the folder.
        add_source_end: whether </s> is added to each source; None follows config.json. Must be True
            for a converted Marian model, unless the texts contain </s>.
        decoder: a name in DECODERS, or a dict of its options; None for `DECODER`.
        max_length: as in `Translator`; also the number of sinusoidal positions.
        jit_compile: as in `Translator`.
    """
    check_choice("spaces", "characters", "sentencepiece", splitter=splitter)
    folder = Path(folder)
    file = read_model_file(folder / "model.bin")
    with reading(folder):
        config = read_config(folder, file)
        vocabularies = [read_vocabulary(folder, file, config, side) for side in SIDES]
        tables = pop_tables(file.arrays, *vocabularies)
        options = transformer_options(file, config) | tables.options()
        check_sizes(options, folder / "model.bin")
        positions = {
            f"{side}_positions": file.arrays.pop(
                f"{part}/position_encodings/encodings", sinusoids(max_length, options["dim"])
            )
            for side, part in SIDES.items()
        }
        length = min(map(len, positions.values()))
        position = {"kind": "learned", "max_length": length}
        model = create_model("transformer", **options, position=position)
        tokenizers = [
            vocabulary.tokenizer(folder / f"{side}.spm", splitter, language_codes=True)
            for side, vocabulary in zip(SIDES, vocabularies, strict=True)
        ]
        if add_source_end is None:
            add_source_end = config["add_source_eos"]
        kind: Any = Translator if add_source_end else TranslatorWithoutSourceEnd
        max_length = min(max_length, length)
        translator = kind(model, *tokenizers, decoder or DECODER, max_length, jit_compile)
    weights = {name: array for name, array in file.arrays.items() if array.ndim}
    weights |= positions | tables.arrays()
    assign_weights(model, weights, CTRANSLATE2, path=folder / "model.bin")
    return translator


def read_config(folder: Path, file: ModelFile) -> dict[str, Any]:
    """The content of config.json; older models have flags in model.bin instead."""
    path = folder / "config.json"
    config = read_json(path) if path.exists() else {}
    for name in ("bos", "eos"):
        config.setdefault(f"add_source_{name}", bool(file.arrays.get(f"with_source_{name}", 0)))
    has_start = file.arrays.get("with_target_bos", 1)
    config.setdefault("decoder_start_token", "<s>" if has_start else "</s>")
    if config["add_source_bos"]:
        raise ValueError("add_source_bos must be false: our sources have no start token; got true")
    return config


def read_vocabulary(folder: Path, file: ModelFile, config: dict[str, Any], side: str) -> Vocabulary:
    """The vocabulary of the source or of the target."""
    tokens = read_tokens(folder / "shared_vocabulary") or read_tokens(folder / f"{side}_vocabulary")
    if tokens is None:
        raise FileNotFoundError(f"{folder} has no {side}_vocabulary.json or .txt")
    unk = config.get("unk_token") or "<unk>"
    tokens = tokens if unk in tokens else [*tokens, unk]
    ids = {token: i for i, token in enumerate(tokens)}
    starts_from_zero = file.arrays.get("decoder/start_from_zero_embedding", 0)
    return Vocabulary(
        tokens,
        pad=next((ids[token] for token in PADDING if token in ids), None),
        start=None if starts_from_zero else ids.get(config["decoder_start_token"]),
        end=ids[config.get("eos_token") or "</s>"],
        unk=ids[unk],
    )


def read_tokens(path: Path) -> list[str] | None:
    """A JSON list, or one token per line; None if there is neither file."""
    if path.with_suffix(".json").exists():
        return json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    if path.with_suffix(".txt").exists():
        return path.with_suffix(".txt").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    return None


def pop_tables(arrays, source: Vocabulary, target: Vocabulary) -> EmbeddingTables:
    """Removes the embedding tables and the output layer from the arrays."""
    first_feature = arrays.pop("encoder/embeddings_0/weight", None)
    output = arrays.pop("decoder/projection/weight")
    tables = EmbeddingTables(
        source=arrays.pop("encoder/embeddings/weight", first_feature),
        target=arrays.pop("decoder/embeddings/weight"),
        output=output,
        bias=arrays.pop("decoder/projection/bias", np.zeros(len(output), "float32")),
        source_vocabulary=source,
        target_vocabulary=target,
    )
    for side, vocabulary in (("source", source), ("target", target)):
        rows, tokens = len(getattr(tables, side)), len(vocabulary.tokens)
        if rows != tokens:
            raise ValueError(
                f"the {side} must have an embedding for each of its {tokens} tokens; got {rows}"
            )
    return tables


def sinusoids(length: int, dim: int) -> np.ndarray:
    """Positions of OpenNMT-tf: from 1, sines before cosines, wavelengths up to exactly 2π·10000."""
    frequency = np.exp(-math.log(10_000) * np.arange(dim // 2) / (dim // 2 - 1))
    angle = np.arange(1, length + 1)[:, None] * frequency
    return np.concatenate([np.sin(angle), np.cos(angle)], axis=1).astype("float32")


def transformer_options(file: ModelFile, config: dict[str, Any]) -> dict[str, Any]:
    """Options of `Transformer`, except for those of `EmbeddingTables`."""
    if file.kind not in ("TransformerSpec", *HEADS) or file.revision < 2:
        raise ValueError(
            "model.bin must be a TransformerSpec of revision 2 or more; "
            f"got {file.kind} of revision {file.revision}"
        )
    arrays = file.arrays
    for name in arrays:
        for pattern, reason in UNSUPPORTED.items():
            if re.match(pattern, name):
                raise ValueError(f"{reason}; the model has {name}")
    check_scale(arrays)
    if shared_value(arrays, "alibi", 0):
        raise ValueError("ALiBi is not supported; the model has alibi")
    activation = int(shared_value(arrays, "activation", 0))
    if activation >= len(ACTIVATIONS):
        known = ", ".join(f"{i} ({name})" for i, name in enumerate(ACTIVATIONS))
        raise ValueError(f"activation must be one of {known}; got {activation}")
    qkv_bias = "encoder/layer_0/self_attention/linear_0/bias" in arrays
    return {
        "depth": count_blocks(arrays, "encoder"),
        "decoder_depth": count_blocks(arrays, "decoder"),
        "num_heads": int(shared_value(arrays, "num_heads", HEADS.get(file.kind, 8))),
        "mlp_dim": len(arrays["encoder/layer_0/ffn/linear_0/weight"]),
        "attention": {"kind": "multi_head", "qkv_bias": qkv_bias},
        "activation": ACTIVATIONS[activation],
        "norm": {"kind": "layer", "epsilon": config.get("layer_norm_epsilon") or 1e-5},
        "norm_first": bool(shared_value(arrays, "pre_norm", 1)),
        "dropout": 0.0,
    }


def shared_value(arrays, name: str, default):
    """A number that encoder and decoder must share; old files store it once, for both."""
    encoder, decoder = (
        arrays.get(f"{part}/{name}", arrays.get(name, default)) for part in SIDES.values()
    )
    if encoder != decoder:
        raise ValueError(f"{name} of encoder and decoder must be equal; got {encoder}, {decoder}")
    return encoder


def count_blocks(arrays, part: str) -> int:
    pattern = rf"{part}/layer_\d+/ffn/linear_0/weight$"
    return sum(re.match(pattern, name) is not None for name in arrays)


def check_scale(arrays) -> None:
    """Raises unless embeddings are multiplied by √D: the scale is an int8 flag, or a float."""
    root = math.sqrt(arrays["decoder/layer_0/ffn/layer_norm/gamma"].size)
    for part in SIDES.values():
        old = arrays.get(f"{part}/embeddings/multiply_by_sqrt_depth", np.int8(1))
        scale = arrays.get(f"{part}/scale_embeddings", old)
        is_root = scale == 1 if scale.dtype == "int8" else math.isclose(scale, root, rel_tol=1e-5)
        if not is_root:
            raise ValueError(f"{part}/scale_embeddings must be √D = {root:.5g}; got {scale:.5g}")
