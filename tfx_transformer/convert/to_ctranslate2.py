"""A translator of ours for CTranslate2, whose C++ runs it on servers without Python or TensorFlow.

    export_ctranslate2(translator, "folder")

    tokens = sentencepiece.SentencePieceProcessor("folder/source.spm").encode(text, out_type=str)
    ctranslate2.Translator("folder").translate_batch([tokens], beam_size=4, length_penalty=0)

Greedy search gives what ours gives with min_length=1. So does a beam with length_penalty=0 in both,
but for the share of PAD and START, which have no probability there and next to none here; with a
length penalty the two stop at other places. CTranslate2 makes whole numbers of the weights itself,
by compute_type="int8".
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from keras import ops

from tfx_transformer.checks import check_positive
from tfx_transformer.convert.ctranslate2 import BareTranslator
from tfx_transformer.convert.vocabulary import NEVER
from tfx_transformer.data.tokenizer import END, PAD, START, UNK
from tfx_transformer.export import check_absent, new_folder
from tfx_transformer.layers import ATTENTION, NORM
from tfx_transformer.layers.position import LearnedPosition, SinusoidalPosition
from tfx_transformer.models.transformer import Transformer
from tfx_transformer.translator import Translator

ACTIVATIONS = {"gelu": "GELU", "gelu_tanh": "GELUTanh", "relu": "RELU", "swish": "SWISH"}


def export_ctranslate2(
    translator: Translator, folder, card: str = "", max_length: int = 1024
) -> Path:
    """Writes a folder of CTranslate2, whole or not at all; it must not be there yet.

    Args:
        translator: what to export: a `Transformer` with plain attention and layer norm. The search
            stays behind: CTranslate2 is told of it at each call.
        folder: where to.
        card: a text about the model, for README.md in the folder.
        max_length: how many positions the model is to know, where it has them from a formula.
    """
    check_positive(max_length=max_length)
    check_absent(folder)
    check_model(translator.model)
    spec = make_spec(translator, max_length)
    with new_folder(folder, card) as half:
        spec.save(str(half))
        for side in ("source", "target"):
            content = getattr(translator, f"{side}_tokenizer").model
            if content is not None:
                (half / f"{side}.spm").write_bytes(content)
    return Path(folder)


def check_model(model) -> None:
    """Refuses what CTranslate2 cannot express."""
    if not isinstance(model, Transformer):
        raise ValueError(f"CTranslate2 takes a Transformer from here; got {type(model).__name__}")
    attention, options = ATTENTION.find(model.attention)
    norm, _ = NORM.find(model.norm)
    position = model.source_position
    refused = {
        "decoder blocks read the last encoder block alone": model.memory != "final",
        "its attention is multi-head": attention is not ATTENTION["multi_head"],
        "positions inside attention are others than ours": options.get("position") is not None,
        "its norm is layer norm": norm is not NORM["layer"],
        f"its activation is one of {', '.join(ACTIVATIONS)}": model.activation not in ACTIVATIONS,
        "positions are sinusoidal or learned": not isinstance(
            position, SinusoidalPosition | LearnedPosition
        ),
        "positions are added": position.combine != "add" or position.project,
    }
    for rule, is_broken in refused.items():
        if is_broken:
            raise ValueError(
                f"CTranslate2 cannot run this model: there {rule}; got memory={model.memory!r}, "
                f"attention={model.attention!r}, norm={model.norm!r}, "
                f"activation={model.activation!r}, position={model.position!r}"
            )


def make_spec(translator: Translator, max_length: int):
    """The model in CTranslate2's own terms, checked by it."""
    library = import_ctranslate2()
    model, source, target = (
        translator.model,
        translator.source_tokenizer.pieces,
        translator.target_tokenizer.pieces,
    )
    spec = library.transformer_spec.TransformerSpec.from_config(
        (model.depth, model.decoder_depth),
        model.num_heads,
        pre_norm=model.norm_first,
        activation=getattr(library.common_spec.Activation, ACTIVATIONS[model.activation]),
    )
    for part, block in zip(spec.encoder.layer, model.encoder, strict=True):
        set_block(part, block)
    for part, block in zip(spec.decoder.layer, model.decoder, strict=True):
        set_block(part, block)
        set_dense(part.attention.linear[0], block.context_attention.query)
        set_dense(part.attention.linear[1], block.context_attention.key_value)
        set_dense(part.attention.linear[2], block.context_attention.out)
        set_norm(part.attention.layer_norm, block.cross_norm)
    if model.norm_first:
        set_norm(spec.encoder.layer_norm, model.encoder_norm)
        set_norm(spec.decoder.layer_norm, model.decoder_norm)
    spec.encoder.embeddings[0].weight = array(model.source_embedding.table)
    spec.decoder.embeddings.weight = array(model.target_embedding.table)
    spec.encoder.position_encodings.encodings = positions(model.source_position, model, max_length)
    spec.decoder.position_encodings.encodings = positions(model.target_position, model, max_length)
    set_output(spec.decoder.projection, model)

    spec.register_source_vocabulary(list(source))
    spec.register_target_vocabulary(list(target))
    spec.config.bos_token = spec.config.decoder_start_token = target[START]
    spec.config.eos_token, spec.config.unk_token = target[END], target[UNK]
    spec.config.add_source_eos = not isinstance(translator, BareTranslator)
    spec.config.layer_norm_epsilon = model.encoder[0].mlp_norm.epsilon
    spec.validate()
    spec.optimize()  # what is tied is written once
    return spec


def import_ctranslate2() -> SimpleNamespace:
    """The parts of the library that describe models."""
    try:
        from ctranslate2.specs import common_spec, transformer_spec
    except ImportError as error:
        raise ModuleNotFoundError(
            "no package ctranslate2, which writes the files: pip install tfx-transformer[convert]"
        ) from error
    return SimpleNamespace(common_spec=common_spec, transformer_spec=transformer_spec)


def set_block(part, block) -> None:
    """What blocks of encoder and decoder share."""
    attention = block.self_attention
    set_dense(part.self_attention.linear[0], attention.query, attention.key_value)
    set_dense(part.self_attention.linear[1], attention.out)
    set_norm(part.self_attention.layer_norm, block.self_norm)
    set_dense(part.ffn.linear_0, block.mlp.up)
    set_dense(part.ffn.linear_1, block.mlp.down)
    set_norm(part.ffn.layer_norm, block.mlp_norm)


def set_dense(part, *layers) -> None:
    """Layers of the same input as one: kernels (in, out) → (out, in)."""
    part.weight = np.concatenate([array(layer.kernel).T for layer in layers])
    if layers[0].use_bias:
        part.bias = np.concatenate([array(layer.bias) for layer in layers])


def set_norm(part, norm) -> None:
    part.gamma, part.beta = array(norm.scale), array(norm.offset)


def set_output(part, model) -> None:
    """The logits; PAD and START never come out, as with us."""
    table = model.target_embedding.table if model.tie != "none" else model.head.kernel
    part.weight = array(table) if model.tie != "none" else array(table).T
    bias = array(model.bias) if model.output_bias else np.zeros(model.vocab_size, "float32")
    bias[[PAD, START]] = NEVER
    part.bias = bias


def positions(layer, model, max_length: int) -> np.ndarray:
    """(max_length, D), or as many as have been learned."""
    length = getattr(layer, "max_length", max_length)
    return array(layer.encode(np.zeros((1, length, model.dim), "float32"), 0, None))


def array(weight) -> np.ndarray:
    """A copy in float32."""
    return np.array(ops.convert_to_numpy(weight), "float32")
