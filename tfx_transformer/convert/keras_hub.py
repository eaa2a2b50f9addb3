"""Language models of keras-hub as our pipelines: to use with our decoders, and to export.

    generator = load_keras_hub("keras_hub:gpt2_base_en")       # a CausalLM: continues texts
    translator = load_keras_hub("bart_folder", "beam")         # a Seq2SeqLM: texts to texts

The model stays that of keras-hub, with its own cache; its tokenizer becomes one of ours, which
exports need no tensorflow-text for where ours can be without. Tokens are those of `generate` of
keras-hub, with these differences:

    words are split as by GPT-2, which keras-hub does in graphs but not in `generate`: it splits
    numbers and quotes as Llama 3
    texts of a Seq2SeqLM end after 2n + 10 tokens, for n source tokens
    tokens without a piece in the tokenizer are never generated
"""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops
from sentencepiece import SentencePieceProcessor

from tfx_transformer.convert.hub import find_folder
from tfx_transformer.convert.keras_file import check_file
from tfx_transformer.convert.preset import is_preset
from tfx_transformer.convert.vocabulary import SPECIAL, Vocabulary
from tfx_transformer.data.text.core.byte_level import ByteLevel
from tfx_transformer.data.text.pair_batches import append_end
from tfx_transformer.data.text.piece_tokenizer import PieceTokenizer, start_rows
from tfx_transformer.data.text.tokenizer import END, PAD
from tfx_transformer.decoding.constraints import MASKED
from tfx_transformer.files import read_json, reading
from tfx_transformer.pipelines import Generator, Translator

# classes of backbones that are tested here
CAUSAL_LMS = ("GPT2Backbone", "LlamaBackbone", "OPTBackbone")
SEQ2SEQ_LMS = ("BartBackbone", "T5Backbone")
BYTE_LEVEL = ("BartTokenizer", "GPT2Tokenizer", "OPTTokenizer")
UNUSED = "<unused_{}>"  # a token without a piece
SAMPLER = {"kind": "sample", "top_k": 5}  # the default of keras-hub
MODULES = ("builtins", "keras", "keras_hub", "keras_nlp")  # of classes in JSON files


class HubLanguageModel:
    """A language model of keras-hub with the interface of our models, and our order of tokens.

    Args:
        task: a `CausalLM` or `Seq2SeqLM`.
        vocabulary: of the task; unused tokens are never generated.
    """

    def __init__(self, task, vocabulary: Vocabulary):
        self.task, self.variables = task, task.variables
        order, tokens = vocabulary.order, vocabulary.tokens
        self.ids = np.array([0 if i is None else i for i in order], "int32")  # ours → theirs
        # a token of theirs that has two of our ids is only END, or else the first
        kept = np.array([i is not None and tokens[i] != UNUSED.format(i) for i in order])
        for n in range(len(SPECIAL)):
            kept[n] &= order[n] not in order[:n] and order[n] != order[END]
        kept[END] = True
        self.mask = np.where(kept, 0.0, MASKED).astype("float32")

    def to_theirs(self, tokens):
        """Our ids of tokens → theirs."""
        return ops.take(self.ids, tokens)

    def to_ours(self, logits):
        """Their logits (…, V) → ours."""
        return ops.cast(ops.take(logits, self.ids, axis=-1), "float32") + self.mask

    def step(self, tokens, state, index):
        """Tokens (B,) at position `index` → logits (B, V) of the next tokens, and the new state.

        A chunk of tokens (B, T) at positions index … gives logits (B, T, V).
        """
        chunk = tokens if len(tokens.shape) == 2 else tokens[:, None]
        logits, cache = self.read(self.to_theirs(chunk), state, index)
        logits = self.to_ours(logits)
        state = {"constant": state["constant"], "carry": {"cache": cache}}
        return logits if chunk is tokens else logits[:, 0], state

    def attention_maps(self, inputs):
        """None: keras-hub does not return them."""
        return {}


class HubCausalLM(HubLanguageModel):
    """A `CausalLM` of keras-hub, such as GPT-2: continues a prompt, the prefix of the decoder."""

    def __init__(self, task, vocabulary):
        super().__init__(task, vocabulary)
        lengths = [getattr(task.backbone, "max_sequence_length", None)]
        lengths.append(task.preprocessor.sequence_length)
        self.max_length = min(length for length in lengths if length)
        _, cache = task._build_cache(ops.zeros((2, 3), "int32"))
        if len(cache.shape) != 6 or (cache.shape[0], cache.shape[3]) != (2, 3):
            raise ValueError(
                "the cache of a CausalLM must be (batch, layers, 2, length, heads, width); "
                f"got {tuple(cache.shape)} for batch=2, length=3"
            )
        self.cache_shape, self.cache_dtype = cache.shape, cache.dtype

    def initial_state(self, inputs, max_length):
        """State of decoding: an empty cache of `max_length` tokens for each of the rows of inputs.

        The values of the inputs are not used: the decoder reads the prompt, its prefix.
        """
        _, depth, pair, _, heads, width = self.cache_shape
        shape = ops.shape(inputs)[0], depth, pair, max_length, heads, width
        return {"constant": {}, "carry": {"cache": ops.zeros(shape, self.cache_dtype)}}

    def read(self, tokens, state, index):
        """Their tokens (B, T) at positions index … → their logits (B, T, V), the new cache."""
        logits, _, cache = self.task.call_with_cache(tokens, state["carry"]["cache"], index)
        return logits, cache


class HubSeq2SeqLM(HubLanguageModel):
    """A `Seq2SeqLM` of keras-hub, such as BART or T5.

    Args:
        start: their ids that a target begins with; the last is our START.
    """

    def __init__(self, task, vocabulary, start):
        super().__init__(task, vocabulary)
        self.start = list(start)

    def initial_state(self, inputs, max_length):
        """State of decoding: keys and values of the encoded source, and those of the target."""
        source, source_mask = self.to_theirs(inputs["source"]), inputs["source"] != PAD
        memory = self.task.call_encoder(token_ids=source, padding_mask=source_mask)
        batch_size, length = ops.shape(source)[0], max_length + len(self.start) - 1
        start = ops.broadcast_to(np.array(self.start, "int32"), (batch_size, len(self.start)))
        empty = ops.zeros((batch_size, length), "int32")
        cache, cross_cache = self.task._initialize_cache(source, empty)
        _, _, cache, cross_cache = self.task.call_decoder_with_cache(
            encoder_hidden_states=memory,
            encoder_padding_mask=source_mask,
            decoder_token_ids=start,
            self_attention_cache=cache,
            self_attention_cache_update_index=0,
            cross_attention_cache=cross_cache,
            cross_attention_cache_update_index=0,
        )
        constant = {"memory": memory, "source_mask": source_mask, "cross_cache": cross_cache}
        return {"constant": constant, "carry": {"cache": cache}}

    def read(self, tokens, state, index):
        """Their tokens (B, T) at positions index … → their logits (B, T, V), the new cache."""
        constant = state["constant"]
        logits, _, cache, _ = self.task.call_decoder_with_cache(
            encoder_hidden_states=constant["memory"],
            encoder_padding_mask=constant["source_mask"],
            decoder_token_ids=tokens,
            self_attention_cache=state["carry"]["cache"],
            self_attention_cache_update_index=index + len(self.start) - 1,
            cross_attention_cache=constant["cross_cache"],
            cross_attention_cache_update_index=None,
        )
        return logits, cache


class TranslatorWithSourceStart(Translator):
    """A translator whose model was trained on sources with START."""

    def end_rows(self, ids):
        return append_end(start_rows(ids))


def load_keras_hub(
    folder, decoder=None, max_length: int | None = None, jit_compile: bool = False
) -> Generator | Translator:
    """Loads a preset of keras-hub, a `CausalLM` or `Seq2SeqLM`, as a pipeline to use or export.

    Args:
        folder: of `save_to_preset`, or keras_hub: with the name of a preset, kaggle://… or hf://….
        decoder, max_length, jit_compile: as in `wrap_keras_hub`.
    """
    folder = find_folder(folder)
    kind = find_kind(folder)
    if kind is None:
        known = ", ".join(CAUSAL_LMS + SEQ2SEQ_LMS)
        raise ValueError(f"{folder} must be a preset of keras-hub with one of {known}")
    check_preset(folder)
    with reading(folder):
        models = importlib.import_module("keras_hub").models
        task = getattr(models, kind).from_preset(str(folder))
    return wrap_keras_hub(task, decoder, max_length, jit_compile)


def wrap_keras_hub(
    task, decoder=None, max_length: int | None = None, jit_compile: bool = False
) -> Generator | Translator:
    """A `CausalLM` or `Seq2SeqLM` of keras-hub as a pipeline to use or export.

    Args:
        task: with its preprocessor.
        decoder: a name in DECODERS, or a dict of its options; by default a CausalLM samples from
            the 5 most likely tokens, as in keras-hub, and a Seq2SeqLM has a beam.
        max_length: as in `Generator` and `Translator`; by default half of the positions of the
            model, or all that its preprocessor allows.
        jit_compile: as in `Translator`; a CausalLM has no such option.
    """
    preprocessor = getattr(task, "preprocessor", None)
    if preprocessor is None or preprocessor.tokenizer is None:
        raise ValueError(f"{type(task).__name__} must have a preprocessor with a tokenizer")
    size = task.backbone.vocabulary_size
    is_seq2seq = hasattr(task, "call_decoder_with_cache")
    if not preprocessor.built:
        preprocessor.build(None)  # makes the packers, which know the first and last tokens
    packer = preprocessor.decoder_packer if is_seq2seq else preprocessor.packer
    start = packer.start_value if isinstance(packer.start_value, list) else [packer.start_value]
    vocabulary, tokenizer = read_tokenizer(preprocessor.tokenizer, size, start[-1])
    if not is_seq2seq:
        if jit_compile:
            raise ValueError("jit_compile must be False for a CausalLM; got True")
        model = HubCausalLM(task, vocabulary)
        return Generator(model, tokenizer, decoder or SAMPLER, max_length)
    limit = preprocessor.decoder_sequence_length - len(start)
    if hasattr(task.backbone, "max_sequence_length"):
        limit = min(limit, task.backbone.max_sequence_length - len(start))
    limit = min(limit, preprocessor.encoder_sequence_length - 1)
    seq2seq = HubSeq2SeqLM(task, vocabulary, start)
    has_start = preprocessor.encoder_packer.start_value is not None
    kind: Any = TranslatorWithSourceStart if has_start else Translator
    length = min(max_length or limit, limit)
    return kind(seq2seq, tokenizer, tokenizer, decoder or "beam", length, jit_compile)


def read_tokenizer(tokenizer, size: int, start: int) -> tuple[Vocabulary, PieceTokenizer]:
    """The vocabulary of a model of `size` tokens, and our tokenizer, from one of keras-hub."""
    kind = type(tokenizer).__name__
    end, special = tokenizer.end_token_id, tokenizer.special_token_ids
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id in special else None
    splitter: Any
    if kind in BYTE_LEVEL and not tokenizer.add_prefix_space:
        pieces = {i: piece for piece, i in tokenizer.vocabulary.items()}
        splitter = ByteLevel(tokenizer.merges, tokenizer.unsplittable_tokens)
        unk = tokenizer.vocabulary.get("<unk>", end)
    elif isinstance(getattr(tokenizer, "proto", None), bytes):
        splitter = tokenizer.proto
        processor = SentencePieceProcessor(model_proto=splitter)
        pieces = dict(enumerate(processor.id_to_piece(list(range(processor.vocab_size())))))
        unk = processor.unk_id()
    else:
        raise ValueError(
            f"a tokenizer of keras-hub must be SentencePiece or {', '.join(BYTE_LEVEL)} without "
            f"add_prefix_space; got {kind}"
        )
    tokens = [pieces.get(i, UNUSED.format(i)) for i in range(size)]
    vocabulary = Vocabulary(tokens, pad, start, end, unk)
    return vocabulary, PieceTokenizer(vocabulary.pieces, splitter)


def find_kind(folder) -> str | None:
    """ "CausalLM" or "Seq2SeqLM" if a folder holds a preset of one that is supported, else None."""
    path = Path(folder) / "config.json"
    config = read_json(path) if path.exists() else {}
    if not is_preset(config) or not (path.parent / "tokenizer.json").exists():
        return None
    kinds = {"CausalLM": CAUSAL_LMS, "Seq2SeqLM": SEQ2SEQ_LMS}
    return next((kind for kind, names in kinds.items() if config["class_name"] in names), None)


def check_preset(folder: Path) -> None:
    """Raises if files of a preset name classes of other packages, huge sizes, or are no plain data.

    keras-hub creates the classes that its JSON files name.
    """
    files = [*folder.glob("*.h5")]
    for path in files:
        check_file(path)
    for path in folder.glob("*.json"):
        content = read_json(path)
        with reading(path):
            check_classes(content)
    num_bytes = sum(path.stat().st_size for path in files)
    path = folder / "config.json"
    with reading(path):
        sizes = {k: v for k, v in read_json(path)["config"].items() if isinstance(v, int)}
        dim, depth = sizes.get("hidden_dim", 1), sizes.get("num_layers", 1)
        count = dim * (sizes["vocabulary_size"] + depth * sizes.get("intermediate_dim", 1))
        if max(count, *sizes.values()) > num_bytes or min(sizes.values()) < 0:
            raise ValueError(
                f"its sizes must fit to the {num_bytes:,} bytes of weights; got {sizes}"
            )


def check_classes(content) -> None:
    """Raises if a JSON value, or one inside of it, names a class of another package."""
    values = content if isinstance(content, list) else []
    if isinstance(content, dict):
        values = [*content.values()]
        module = content.get("module") or "builtins"
        if not isinstance(module, str) or module.split(".")[0] not in MODULES:
            raise ValueError(f"module must be of {', '.join(MODULES)}; got {module!r:.80}")
        if content.get("class_name") in ("Lambda", "__lambda__"):
            raise ValueError("class_name must not be Lambda, which is code")
    for value in values:
        check_classes(value)
