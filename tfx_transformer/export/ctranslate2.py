"""CTranslate2 export of translators, whose C++ library runs without Python or TensorFlow.

    export(translator, "folder", format="ctranslate2")

    tokens = sentencepiece.SentencePieceProcessor("folder/source.spm").encode(text, out_type=str)
    options = json.load(open("folder/translate_batch.json"))
    ctranslate2.Translator("folder").translate_batch([tokens], **options)

translate_batch.json has the options of the translator's decoder. Greedy decoding gives the same
tokens as ours, and so does beam search without length penalty or with `AGREEING`, except where
hypotheses are equally likely up to rounding, and at the limits of length: ours ends after 2n + 10
tokens, for n source tokens. (PAD and START have no probability there, and almost none here.)
CTranslate2 divides log-probabilities by length^length_penalty and stops at beam_size finished
hypotheses; our default divides by ((5 + length) / 6)^length_penalty and stops when none can get
better. CTranslate2 quantizes the weights itself, with compute_type="int8".
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from tfx_transformer.checks import check_positive, import_extra
from tfx_transformer.convert.checkpoint import weights_by_name
from tfx_transformer.convert.ctranslate2 import CTRANSLATE2
from tfx_transformer.data.text.tokenizer import END, PAD, START, UNK
from tfx_transformer.decoding import BeamDecoder, SamplingDecoder
from tfx_transformer.decoding.constraints import MASKED
from tfx_transformer.layers import ATTENTION, NORM
from tfx_transformer.layers.position import LearnedPosition, SinusoidalPosition
from tfx_transformer.models.transformer import Transformer
from tfx_transformer.pipelines import Translator
from tfx_transformer.pipelines.ctranslate2 import FILE, CTranslate2Pipeline

KINDS = ("translator",)
load = CTranslate2Pipeline
AGREEING = {"length_rule": "power", "early_stop": "full"}  # options of our beam
ACTIVATIONS = {"gelu": "GELU", "gelu_tanh": "GELUTanh", "relu": "RELU", "swish": "SWISH"}


def write(translator: Translator, folder: Path, max_positions: int = 1024) -> str:
    """Writes the model, its vocabularies, tokenizers and decoding options → text for the card.

    Args:
        translator: its model must be a `Transformer` with multi-head attention and layer norm.
        folder: where to write.
        max_positions: number of sinusoidal positions; learned ones keep their number.
    """
    check_positive(max_positions=max_positions)
    check_model(translator.model)
    make_spec(translator, max_positions).save(str(folder))
    for side in ("source", "target"):
        model = getattr(translator, f"{side}_tokenizer").model
        if model is not None:
            (folder / f"{side}.spm").write_bytes(model)
    options = decoding_options(translator)
    (folder / FILE).write_text(json.dumps(options, indent=2) + "\n")
    arguments = ", ".join(f"{name}={value}" for name, value in options.items())
    text = f"\nDecoding: `translate_batch(tokens, {arguments})`, also in {FILE}.\n"
    decoder = translator.decoder
    if options.get("length_penalty") and any(getattr(decoder, k) != v for k, v in AGREEING.items()):
        text += (
            "CTranslate2 divides log-probabilities by length^length_penalty and stops at beam_size "
            "finished hypotheses. The decoder of this model in tfx_transformer does not, so some "
            'translations differ; with length_rule="power" and early_stop="full" they agree.\n'
        )
    return text


def decoding_options(translator: Translator) -> dict[str, Any]:
    """The arguments of `translate_batch` that correspond to the translator's decoder."""
    decoder = translator.decoder
    options: dict[str, Any] = {
        "beam_size": getattr(decoder, "width", 1),
        "num_hypotheses": getattr(decoder, "n_best", 1),
        "min_decoding_length": decoder.min_length,
        "max_decoding_length": translator.max_length,
        "max_input_length": translator.max_length,
        "no_repeat_ngram_size": decoder.no_repeat_ngram,
    }
    if isinstance(decoder, BeamDecoder):
        names = ("length_penalty", "coverage_penalty")
        options |= {"patience": 1} | {name: getattr(decoder, name) for name in names}
    if isinstance(decoder, SamplingDecoder):
        options |= {"sampling_temperature": decoder.temperature, "sampling_topp": decoder.top_p}
        options |= {"sampling_topk": decoder.top_k}
    if decoder.forbidden:
        pieces = translator.target_tokenizer.pieces
        options["suppress_sequences"] = [[pieces[index]] for index in decoder.forbidden]
    return options


def check_model(model) -> None:
    """Raises if CTranslate2 cannot run the model."""
    if not isinstance(model, Transformer):
        raise ValueError(
            f"the CTranslate2 format supports a Transformer; got {type(model).__name__}"
        )
    attention, options = ATTENTION.find(model.attention)
    norm, _ = NORM.find(model.norm)
    position: Any = model.source_position
    has_table = isinstance(position, SinusoidalPosition | LearnedPosition)
    rules = (
        ("memory", "'final'", model.memory == "final"),
        ("attention", "multi_head", attention is ATTENTION["multi_head"]),
        ("attention", "without position", options.get("position") is None),
        ("norm", "layer", norm is NORM["layer"]),
        ("activation", f"one of {', '.join(ACTIVATIONS)}", model.activation in ACTIVATIONS),
        ("position", "sinusoidal or learned", has_table),
        (
            "position",
            "added, not projected",
            has_table and position.combine == "add" and not position.project,
        ),
    )
    for name, rule, is_met in rules:
        if not is_met:
            raise ValueError(
                f"CTranslate2 cannot run this model: {name} must be {rule}; "
                f"got {getattr(model, name)!r}"
            )


def make_spec(translator: Translator, max_positions: int):
    """The specification of the model, validated by CTranslate2."""
    specs = import_extra("ctranslate2.specs", "the format ctranslate2", "convert")
    model, pieces = translator.model, translator.target_tokenizer.pieces
    spec = specs.TransformerSpec.from_config(
        (model.depth, model.decoder_depth),
        model.num_heads,
        pre_norm=model.norm_first,
        activation=getattr(specs.common_spec.Activation, ACTIVATIONS[model.activation]),
    )
    arrays = CTRANSLATE2.stored_arrays(weights_by_name(model), model)

    def set_array(part, name, _):
        if name in arrays:
            setattr(part, name.rpartition("/")[2], arrays[name])

    specs.model_spec.visit_spec(spec, set_array)
    spec.encoder.embeddings[0].weight = array(model.source_embedding.table)
    spec.decoder.embeddings.weight = array(model.target_embedding.table)
    set_positions(spec.encoder, model.source_position, model.dim, max_positions)
    set_positions(spec.decoder, model.target_position, model.dim, max_positions)
    set_output(spec.decoder.projection, model)

    spec.register_source_vocabulary(list(translator.source_tokenizer.pieces))
    spec.register_target_vocabulary(list(pieces))
    spec.config.bos_token = spec.config.decoder_start_token = pieces[START]
    spec.config.eos_token, spec.config.unk_token = pieces[END], pieces[UNK]
    spec.config.add_source_eos = translator.add_source_end
    spec.config.layer_norm_epsilon = model.encoder[0].mlp_norm.epsilon
    spec.validate()
    spec.optimize()  # writes tied weights once
    return spec


def set_output(part, model) -> None:
    """The output layer; PAD and START are never predicted, as in our decoders."""
    is_tied = model.tie != "none"
    part.weight = array(model.target_embedding.table) if is_tied else array(model.head.kernel).T
    bias = array(model.bias) if model.output_bias else np.zeros(model.vocab_size, "float32")
    bias[[PAD, START]] = MASKED
    part.bias = bias


def set_positions(part, layer, dim: int, max_positions: int) -> None:
    """(max_positions, D), or as many as the layer has learned."""
    length = getattr(layer, "max_length", max_positions)
    encodings = layer.encode(np.zeros((1, length, dim), "float32"), 0, None)
    part.position_encodings.encodings = array(encodings)


def array(weight) -> np.ndarray:
    """A copy as float32."""
    return np.array(ops.convert_to_numpy(weight), "float32")
