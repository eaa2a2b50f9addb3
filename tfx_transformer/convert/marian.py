"""Marian translators from Hugging Face, such as all of OPUS-MT, as our `Translator`.

    translator = load_marian("hf:Helsinki-NLP/opus-mt-en-de")     # or a folder of save_pretrained
    translator(["A small frog sat in a box."])

The folder contains config.json, model.safetensors or pytorch_model.bin, source.spm, target.spm,
vocab.json and optionally generation_config.json. PyTorch is not needed.

Translations are those of `generate` with the folder's settings, token by token: its beam divides
log-probabilities by length^length_penalty and stops when no hypothesis is likely to improve, which
are length_rule="power" and early_stop="likely" of our beam. Three things differ:

    a translation ends after 2n + 10 tokens, for n source tokens
    an empty text is translated as an empty text
    constraints in generation_config.json, such as min_length, are ignored: set `decoder`
"""

from pathlib import Path
from typing import Any

import numpy as np

from tfx_transformer.convert.checkpoint import assign_weights, read_weights
from tfx_transformer.convert.hub import find_checkpoint, find_folder
from tfx_transformer.convert.layout import Layout
from tfx_transformer.convert.options import check_sizes, find_activation
from tfx_transformer.convert.vocabulary import TABLE_NAMES, EmbeddingTables, Vocabulary
from tfx_transformer.files import read_json, reading
from tfx_transformer.models import create_model
from tfx_transformer.pipelines import Translator

UNSUPPORTED = ("normalize_before", "normalize_embedding", "add_final_layer_norm")

HUGGING_FACE = Layout(
    family="Hugging Face",
    pattern=r"(model\.)encoder\.layers\.\d+\.self_attn\.",
    prefix="model.",
    block="{prefix}{kind}.layers.{i}.",
    head=(),
    names=TABLE_NAMES
    | {
        "self_attention/qkv": "{block}self_attn.{part[0]}_proj.{leaf}",
        "self_attention/output": "{block}self_attn.out_proj.{leaf}",
        "self_norm": "{block}self_attn_layer_norm.{leaf}",
        "cross_attention/qkv": "{block}encoder_attn.{part[0]}_proj.{leaf}",
        "cross_attention/output": "{block}encoder_attn.out_proj.{leaf}",
        "cross_norm": "{block}encoder_attn_layer_norm.{leaf}",
        "mlp/up": "{block}fc1.{leaf}",
        "mlp/down": "{block}fc2.{leaf}",
        "mlp_norm": "{block}final_layer_norm.{leaf}",
    },
    unused=r"model\.(encoder|decoder)\.embed_positions\.weight$",  # sinusoids
)


def load_marian(
    folder, decoder=None, max_length: int | None = None, jit_compile: bool = False
) -> Translator:
    """Loads a Marian model from Hugging Face as a `Translator`, to use, export or fine-tune.

    Args:
        folder: of `save_pretrained`, or `hf:OWNER/NAME`.
        decoder: a name in DECODERS, or a dict of its options; None for that of the folder.
        max_length: as in `Translator`; None for that of the folder.
        jit_compile: as in `Translator`.
    """
    folder = find_folder(folder)
    config, checkpoint = read_config(folder), find_checkpoint(folder)
    weights = read_weights(checkpoint)
    with reading(folder):
        tables = pop_tables(weights, config, *read_vocabularies(folder, config))
        options = transformer_options(config) | tables.options()
        check_sizes(options, checkpoint)
        model = create_model("transformer", **options)
        translator = Translator(
            model,
            tables.source_vocabulary.tokenizer(folder / "source.spm", language_codes=True),
            tables.target_vocabulary.tokenizer(folder / "target.spm"),
            decoder or read_decoder(config),
            max_length or config.get("max_length", 512) - 1,  # without START, which theirs counts
            jit_compile,
        )
    assign_weights(model, weights | tables.arrays(), HUGGING_FACE, path=checkpoint)
    return translator


def is_marian(folder) -> bool:
    """Whether a folder contains a Marian model of Hugging Face."""
    path = Path(folder) / "config.json"
    return path.exists() and read_json(path).get("model_type") == "marian"


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, updated by generation_config.json if there is one."""
    if not is_marian(folder):
        raise ValueError(f'{folder} must have a config.json of model_type "marian"')
    generation = folder / "generation_config.json"
    config = read_json(folder / "config.json")
    return config | (read_json(generation) if generation.exists() else {})


def read_vocabularies(folder: Path, config: dict[str, Any]) -> tuple[Vocabulary, Vocabulary]:
    """Of the source and of the target; the same unless there is a target_vocab.json."""
    special = {"start": config["decoder_start_token_id"], "pad": config["pad_token_id"]}
    source = read_vocabulary(folder / "vocab.json", config["vocab_size"], special)
    if config.get("share_encoder_decoder_embeddings", True):
        return source, source
    path = folder / "target_vocab.json"
    size = config.get("decoder_vocab_size") or config["vocab_size"]
    return source, read_vocabulary(path if path.exists() else folder / "vocab.json", size, special)


def read_vocabulary(path: Path, size: int, special: dict[str, int]) -> Vocabulary:
    """Reads a JSON file {token: id}."""
    ids = read_json(path)
    if len(ids) != size or sorted(ids.values()) != list(range(len(ids))):
        raise ValueError(
            f"{path} must contain each id of 0 … {size - 1} once; got {len(ids)} tokens"
        )
    missing = [token for token in ("</s>", "<unk>") if token not in ids]
    if missing:
        raise ValueError(f"{path} must contain </s> and <unk>; it has no {missing[0]}")
    return Vocabulary(
        sorted(ids, key=ids.__getitem__), **special, end=ids["</s>"], unk=ids["<unk>"]
    )


def pop_tables(weights, config, source: Vocabulary, target: Vocabulary) -> EmbeddingTables:
    """Removes the embedding tables and the output layer from the weights; tied ones exist once."""
    shared = weights.pop("model.shared.weight", None)
    output = weights.pop("lm_head.weight", shared)
    target_table = weights.pop("model.decoder.embed_tokens.weight", output)
    source_table = weights.pop("model.encoder.embed_tokens.weight", shared)
    if source_table is None or target_table is None:
        raise ValueError("the Hugging Face weights do not fit the model: no model.shared.weight")
    bias = weights.pop("final_logits_bias", np.zeros(len(target_table)))
    return EmbeddingTables(
        source=np.asarray(source_table, "float32"),
        target=np.asarray(target_table, "float32"),
        output=np.asarray(target_table if output is None else output, "float32"),
        bias=np.asarray(bias, "float32").reshape(-1),
        source_vocabulary=source,
        target_vocabulary=target,
        predicts_pad=not config.get("renormalize_logits"),
    )


def transformer_options(config: dict[str, Any]) -> dict[str, Any]:
    """Options of `Transformer`, except for those of `EmbeddingTables`."""
    for name in ("attention_heads", "ffn_dim"):
        encoder, decoder = config[f"encoder_{name}"], config[f"decoder_{name}"]
        if encoder != decoder:
            raise ValueError(
                f"{name} of encoder and decoder must be equal; got encoder_{name}={encoder}, "
                f"decoder_{name}={decoder}"
            )
    for name in UNSUPPORTED:
        if config.get(name):
            raise ValueError(f"{name} must be false, as in Marian; got {config[name]}")
    if not config.get("scale_embedding"):
        raise ValueError("scale_embedding must be true, as in our Transformer; got false")
    return {
        "depth": config["encoder_layers"],
        "decoder_depth": config["decoder_layers"],
        "num_heads": config["encoder_attention_heads"],
        "mlp_dim": config["encoder_ffn_dim"],
        "activation": find_activation(config["activation_function"]),
        "dropout": config.get("dropout", 0.0),
        "norm": {"kind": "layer", "epsilon": 1e-5},
        "position": {"kind": "sinusoidal", "layout": "halves"},
    }


def read_decoder(config: dict[str, Any]) -> dict[str, Any]:
    """The decoder of the configuration, as options for DECODERS."""
    if (config.get("num_beams") or 1) == 1:
        return {"kind": "greedy"}
    alpha = config.get("length_penalty")
    return {
        "kind": "beam",
        "width": config["num_beams"],
        "length_penalty": 1.0 if alpha is None else float(alpha),
        "length_rule": "power",
        "early_stop": {"never": True, True: "full"}.get(config.get("early_stopping"), "likely"),
    }
