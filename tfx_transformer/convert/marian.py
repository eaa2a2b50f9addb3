"""Marian: translators of Hugging Face, among them the thousand of OPUS-MT, as Translators of ours.

    translator = load_marian("hf:Helsinki-NLP/opus-mt-en-de")     # or a folder of save_pretrained
    translator(["A small frog sat in a box."])

The folder has config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm and
vocab.json, and may have generation_config.json. Nothing but TensorFlow runs it.

Texts are those of `generate` with the folder's own settings, token by token: its beam divides
log-probabilities by length^length_penalty and stops where no hypothesis is likely to get better,
which are length_rule="power" and early_stop="likely" of our beam. Four things differ:

    a translation ends at 2n + 10 tokens, for n of the source, not at the same place for all
    an empty text is translated as an empty text
    early_stopping=True is read as False
    constraints in generation_config.json, such as min_length, are not read: say `decoder`
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.convert.checkpoint import fill, read_weights
from tfx_transformer.convert.hub import find_checkpoint, find_folder
from tfx_transformer.convert.layout import Layout
from tfx_transformer.convert.vocabulary import NAMES, Tables, Vocabulary
from tfx_transformer.data.pieces import PieceTokenizer
from tfx_transformer.models.transformer import Transformer
from tfx_transformer.translator import Translator

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}
REFUSED = ("normalize_before", "normalize_embedding", "add_final_layer_norm")


@dataclass(frozen=True)
class MarianLayout(Layout):
    """Encoder and decoder name their blocks alike."""

    def words(self, kind, number, model):
        return {"kind": kind, "i": number}


HUGGING_FACE = MarianLayout(
    family="Hugging Face",
    mark=r"(model\.)encoder\.layers\.\d+\.self_attn\.",
    begin="model.",
    block="{begin}{kind}.layers.{i}.",
    head=(),
    names=NAMES
    | {
        "self_attention/query": "{block}self_attn.q_proj.{leaf}",
        "key": "{block}self_attn.k_proj.{leaf}",
        "value": "{block}self_attn.v_proj.{leaf}",
        "self_attention/output": "{block}self_attn.out_proj.{leaf}",
        "self_norm": "{block}self_attn_layer_norm.{leaf}",
        "cross_attention/query": "{block}encoder_attn.q_proj.{leaf}",
        "cross_key": "{block}encoder_attn.k_proj.{leaf}",
        "cross_value": "{block}encoder_attn.v_proj.{leaf}",
        "cross_attention/output": "{block}encoder_attn.out_proj.{leaf}",
        "cross_norm": "{block}encoder_attn_layer_norm.{leaf}",
        "mlp/up": "{block}fc1.{leaf}",
        "mlp/down": "{block}fc2.{leaf}",
        "mlp_norm": "{block}final_layer_norm.{leaf}",
    },
    unused=r"model\.(encoder|decoder)\.embed_positions\.weight$",  # sines, which we compute
)


def load_marian(
    folder, decoder=None, max_length: int | None = None, jit_compile: bool = False
) -> Translator:
    """A folder of Hugging Face as a `Translator`, to use, to export or to go on training.

    Args:
        folder: where the files are, or `hf:OWNER/NAME`.
        decoder: a name in DECODERS, or a dict of its options; as the folder says if None.
        max_length: as of `Translator`; as the folder says if None.
        jit_compile: as of `Translator`.
    """
    folder = find_folder(folder)
    config = read_config(folder)
    weights = read_weights(find_checkpoint(folder))
    tables = take_tables(weights, config, *read_vocabularies(folder, config))
    model = Transformer(**transformer_options(config) | tables.options())
    model.build({"source": (None, None), "target": (None, None)})
    fill(model, weights | tables.entries(), HUGGING_FACE, head=True)
    source, target = tables.source_vocabulary.pieces, tables.target_vocabulary.pieces
    return Translator(
        model,
        PieceTokenizer(source, (folder / "source.spm").read_bytes(), codes=True),
        PieceTokenizer(target, (folder / "target.spm").read_bytes()),
        decoder or read_decoder(config),
        max_length or config.get("max_length", 512) - 1,  # theirs counts START
        jit_compile,
    )


def is_marian(folder) -> bool:
    """Whether a folder holds one."""
    path = Path(folder) / "config.json"
    return path.exists() and json.loads(path.read_text()).get("model_type") == "marian"


def read_config(folder: Path) -> dict[str, Any]:
    """Of the model and, if it has a file of its own, of generation."""
    if not is_marian(folder):
        raise ValueError(f'{folder} must have a config.json of model_type "marian"')
    config = json.loads((folder / "config.json").read_text())
    generation = folder / "generation_config.json"
    return config | (json.loads(generation.read_text()) if generation.exists() else {})


def read_vocabularies(folder: Path, config: dict[str, Any]) -> tuple[Vocabulary, Vocabulary]:
    """Of the source and of the target; the same one unless there is a target_vocab.json."""
    special = {"start": config["decoder_start_token_id"], "pad": config["pad_token_id"]}
    source = read_vocabulary(folder / "vocab.json", config["vocab_size"], special)
    if config.get("share_encoder_decoder_embeddings", True):
        return source, source
    path = folder / "target_vocab.json"
    size = config.get("decoder_vocab_size") or config["vocab_size"]
    return source, read_vocabulary(path if path.exists() else folder / "vocab.json", size, special)


def read_vocabulary(path: Path, size: int, special: dict[str, int]) -> Vocabulary:
    """{token: id} in a file."""
    ids = json.loads(path.read_text(encoding="utf-8"))
    if sorted(ids.values()) != list(range(size)):
        raise ValueError(f"{path} must name each of 0 … {size - 1} once; got {len(ids)} tokens")
    missing = [token for token in ("</s>", "<unk>") if token not in ids]
    if missing:
        raise ValueError(f"{path} must hold </s> and <unk>; it has no {missing[0]}")
    return Vocabulary(
        sorted(ids, key=ids.__getitem__), **special, end=ids["</s>"], unk=ids["<unk>"]
    )


def take_tables(weights, config, source: Vocabulary, target: Vocabulary) -> Tables:
    """Takes all that has a row for each token out of the weights; what is tied is there once."""
    shared = weights.pop("model.shared.weight", None)
    output = weights.pop("lm_head.weight", shared)
    target_table = weights.pop("model.decoder.embed_tokens.weight", output)
    source_table = weights.pop("model.encoder.embed_tokens.weight", shared)
    if source_table is None or target_table is None:
        raise ValueError("the Hugging Face weights do not fit the model: no model.shared.weight")
    bias = weights.pop("final_logits_bias", np.zeros(len(target_table)))
    return Tables(
        source=np.asarray(source_table, "float32"),
        target=np.asarray(target_table, "float32"),
        output=np.asarray(target_table if output is None else output, "float32"),
        bias=np.asarray(bias, "float32").reshape(-1),
        source_vocabulary=source,
        target_vocabulary=target,
        pad_comes=not config.get("renormalize_logits"),
    )


def transformer_options(config: dict[str, Any]) -> dict[str, Any]:
    """Of a `Transformer` that computes the same, but for what its tables say."""
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = config[f"encoder_{name}"], config[f"decoder_{name}"]
        if encoder != decoder:
            raise ValueError(
                f"encoder and decoder must be alike; got encoder_{name}={encoder}, "
                f"decoder_{name}={decoder}"
            )
    for name in REFUSED:
        if config.get(name):
            raise ValueError(f"{name} must be false, as in Marian; got {config[name]}")
    if not config.get("scale_embedding"):
        raise ValueError("scale_embedding must be true, as in our Transformer; it is false")
    activation = config["activation_function"]
    if activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise ValueError(f"unknown activation_function {activation!r}; known: {known}")
    return {
        "depth": config["encoder_layers"],
        "decoder_depth": config["decoder_layers"],
        "num_heads": config["encoder_attention_heads"],
        "mlp_dim": config["encoder_ffn_dim"],
        "activation": ACTIVATIONS[activation],
        "dropout": config.get("dropout", 0.0),
        "norm": {"kind": "layer", "epsilon": 1e-5},
        "position": {"kind": "sinusoidal", "layout": "halves"},
    }


def read_decoder(config: dict[str, Any]) -> dict[str, Any]:
    """The search that the folder asks for, for DECODERS."""
    if (config.get("num_beams") or 1) == 1:
        return {"kind": "greedy"}
    alpha = config.get("length_penalty")
    return {
        "kind": "beam",
        "width": config["num_beams"],
        "length_penalty": 1.0 if alpha is None else float(alpha),
        "length_rule": "power",
        "early_stop": True if config.get("early_stopping") == "never" else "likely",
    }
