"""The base class of all decoders: the call and one constrained step of the model."""

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from keras import ops

from tfx_transformer.backend import gather
from tfx_transformer.checks import check_positive, check_whole
from tfx_transformer.decoding.constraints import (
    MIN_LOG_PROB,
    forbid_end,
    forbid_repeats,
    forbid_tokens,
    is_allowed,
)
from tfx_transformer.decoding.loop import (
    batch_gather,
    decode_loop,
    decode_rounds,
    repeat_rows,
    restore_shapes,
)


@dataclass(frozen=True)
class DecodingCall:
    """The arguments of one call of a decoder; N = B · rows_per_sentence rows in the model."""

    step: Callable
    constant: Any  # state that depends on the source only, (N, …)
    carry: Any  # state before the first step, (N, …)
    batch_size: Any  # B, a whole number or a scalar tensor
    max_length: Any  # a whole number or a scalar tensor
    start_id: int
    end_id: int
    pad_id: int
    rows_per_sentence: int = 1
    forced: Any = None  # (N, max_length or more) tokens, PAD where the decoder is free
    limit: Any = None  # (B,) lengths at which sentences are cut off
    shared: Any = None  # state that is the same for all rows
    index: Any = 0  # number of forced tokens that were read before the first step
    log_prob: Any = 0.0  # (N,) of these tokens
    random: Any = None  # (N, max_length) numbers in 0 … 1, if a decoder needs them
    compact: bool = False  # whether sentences that are done leave the batch

    @property
    def num_rows(self):
        """N."""
        return self.batch_size * self.rows_per_sentence

    def run(self, make_step, rows):
        """The rows after `decode_loop` or `decode_rounds`, by `make_step(call) -> advance`."""
        is_done = self.limit < 1
        if not self.compact:
            return decode_loop(make_step(self), rows, is_done, self.carry, self.index)
        parts = {name: getattr(self, name) for name in ("constant", "forced", "random")}
        rows_of = {name: part for name, part in parts.items() if part is not None}
        tensors = {"sentences": self.limit, "rows": rows_of}

        def make_round(tensors):
            limit = tensors["sentences"]
            count = ops.shape(limit)[0]
            return make_step(replace(self, limit=limit, batch_size=count, **tensors["rows"]))

        size = self.rows_per_sentence
        return decode_rounds(make_round, tensors, rows, is_done, self.carry, self.index, size)

    def first_tokens(self):
        """(N, 1 + max_length) tokens: START at position 0, the tokens read so far, then PAD."""
        start = ops.full((self.num_rows, 1), self.start_id, dtype="int32")
        rest = ops.full((self.num_rows, self.max_length), self.pad_id, dtype="int32")
        if self.forced is not None:
            is_read = ops.arange(self.max_length, dtype="int32") < self.index
            rest = ops.where(is_read, self.forced[:, : self.max_length], rest)
        return ops.concatenate([start, rest], axis=1)

    def required_tokens(self, log_probs, best, index):
        """Required tokens of position index + 1, their log-probabilities, and where there is one.

        These are the prefix, and END where even the `best` log-probability (N, 1) is not allowed:
        (N, 1) each; a token that is the same for all rows is a scalar.
        """
        is_stuck, token = ops.logical_not(is_allowed(best)), self.end_id
        log_prob = log_probs[:, token : token + 1]
        if self.forced is None:
            return token, ops.maximum(log_prob, MIN_LOG_PROB), is_stuck
        forced = gather(self.forced, index, axis=1)[:, None]
        is_forced = forced != self.pad_id
        token = ops.where(is_forced, forced, self.end_id)
        log_prob = ops.maximum(batch_gather(log_probs, token), MIN_LOG_PROB)
        return token, log_prob, ops.logical_or(is_forced, is_stuck)


@dataclass(frozen=True)
class Decoder(abc.ABC):
    """Base class: generates token sequences with the `step` function of any model.

    Args:
        min_length: minimum number of generated tokens before END.
        no_repeat_ngram: no n-gram of this many tokens is generated twice; 0 allows repeats.
        forbidden: token ids that are never generated. START and PAD never are; END cannot be
            forbidden, and a sentence ends where nothing else is allowed.

    Call arguments:
        step: `step(tokens, state, index) -> logits, state`: the tokens (N,) at position `index`, a
            scalar → logits (N, V) of position index + 1. With `num_known` also a chunk of tokens
            (B, T) → logits (B, T, V).
        state: {"constant": structure, "carry": structure} of tensors (B, …). The constant depends
            on the source only: it is repeated once and never reordered. The carry depends on the
            tokens so far, is reordered with them, and keeps its shapes, but for axes that may grow
            in TensorFlow. A third part, "shared", has no rows: it is passed on to each step.
        batch_size: B, a whole number or a scalar tensor.
        max_length: maximum number of generated tokens, with END; a whole number or a scalar tensor.
        start_id, end_id, pad_id: the special tokens.
        prefix: (B, P) forced first tokens, P ≤ max_length, padded on the right with PAD. They are
            exempt from the constraints, but count as generated.
        limit: a scalar or (B,), a smaller max_length per sentence, which is cut off there.
        compact: whether sentences that are done leave the batch, when they are half of it: faster,
            but only for TensorFlow without XLA.
        num_known: this many tokens of the prefix are read in one pass instead of one by one; no
            row may have PAD, END or its limit among them. A whole number or, but for XLA and
            `jax.jit`, a scalar tensor.
        random: numbers in 0 … 1 (B · rows_per_sentence, max_length) by which tokens are sampled,
            instead of those of the decoder's seed.

    Returns:
        A dict. "tokens" (B, n_best, max_length) without START, with END, then PAD; "log_prob"
        (B, n_best), the sum of the model's log-probabilities of these tokens, forced ones
        included; "score" (B, n_best), the ranking; "length" (B, n_best), with END.
    """

    min_length: int = 0
    no_repeat_ngram: int = 0
    forbidden: tuple[int, ...] = ()

    def __post_init__(self):
        check_whole(min_length=self.min_length, no_repeat_ngram=self.no_repeat_ngram)
        object.__setattr__(self, "forbidden", tuple(self.forbidden))  # JSON has lists
        for token in self.forbidden:
            check_whole(forbidden=token)

    @property
    def rows_per_sentence(self) -> int:
        """Rows of the model per sentence."""
        return 1

    @property
    def needs_coverage(self) -> bool:
        """Whether the model must keep state["carry"]["coverage"]; if not, steps get none."""
        return False

    @abc.abstractmethod
    def search(self, call: DecodingCall) -> dict[str, Any]:
        """The result of a call, its tokens beginning with START."""

    def __call__(
        self,
        step: Callable,
        state: dict[str, Any],
        batch_size,
        max_length,
        start_id: int,
        end_id: int,
        pad_id: int,
        prefix=None,
        limit=None,
        num_known=0,
        compact=False,
        random=None,
    ) -> dict[str, Any]:
        if isinstance(max_length, int):
            check_positive(max_length=max_length)
        check_whole(start_id=start_id, end_id=end_id, pad_id=pad_id)
        if end_id in self.forbidden:
            raise ValueError(f"forbidden must not hold end_id={end_id}; got {self.forbidden}")
        self.check_state(state)
        state = {"shared": None} | state
        if not self.needs_coverage and isinstance(state["carry"], dict):
            carry = {name: part for name, part in state["carry"].items() if name != "coverage"}
            state = state | {"carry": carry}
        forced = None if prefix is None else _pad_prefix(prefix, batch_size, max_length, pad_id)
        limit = max_length if limit is None else ops.cast(limit, "int32")
        log_prob = ops.zeros((batch_size,), "float32")
        num_known = num_known if isinstance(num_known, int) else ops.cast(num_known, "int32")
        if not isinstance(num_known, int) or num_known > 0:
            start = ops.full((batch_size, 1), start_id, dtype="int32")
            known = ops.concatenate([start, forced], axis=1)
            state, log_prob = read_tokens(step, state, known, num_known)
        call = DecodingCall(
            step=step,
            constant=repeat_rows(state["constant"], self.rows_per_sentence),
            carry=repeat_rows(state["carry"], self.rows_per_sentence),
            batch_size=batch_size,
            rows_per_sentence=self.rows_per_sentence,
            max_length=max_length,
            start_id=start_id,
            end_id=end_id,
            pad_id=pad_id,
            shared=state["shared"],
            forced=None if forced is None else repeat_rows(forced, self.rows_per_sentence),
            limit=ops.broadcast_to(ops.minimum(limit, max_length), (batch_size,)),
            index=num_known,
            log_prob=repeat_rows(log_prob, self.rows_per_sentence),
            random=random,
            compact=compact,
        )
        result = self.search(call)
        return result | {"tokens": result["tokens"][:, :, 1:]}

    def check_state(self, state):
        if not isinstance(state, dict) or not {"constant", "carry"} <= state.keys():
            got = sorted(state) if isinstance(state, dict) else type(state).__name__
            raise ValueError(f'state must be a dict with "constant" and "carry"; got {got}')

    def advance(self, call, tokens, carry, index):
        """One step of the model after tokens (…, 1 + max_length) of N rows, up to `index`.

        Returns:
            Log-probabilities (N, V) of the next token, the same after the constraints, and the
            new carry.
        """
        newest = ops.reshape(gather(tokens, index, axis=len(tokens.shape) - 1), (-1,))
        state = {"shared": call.shared, "constant": call.constant, "carry": carry}
        logits, state = call.step(newest, state, index)
        vocab_size = logits.shape[-1]
        _check_ids(
            vocab_size,
            start_id=call.start_id,
            end_id=call.end_id,
            pad_id=call.pad_id,
            forbidden=max(self.forbidden, default=0),
        )

        log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        banned = {call.start_id, call.pad_id, *self.forbidden} - {call.end_id}
        allowed = forbid_tokens(log_probs, banned)  # some models have END = START or END = PAD
        if self.no_repeat_ngram:
            tokens = ops.reshape(tokens, (-1, ops.shape(tokens)[-1]))
            allowed = forbid_repeats(allowed, tokens[:, 1:], index, self.no_repeat_ngram)
        if self.min_length:
            allowed = forbid_end(allowed, call.end_id, index < self.min_length)
        return log_probs, allowed, state["carry"]


def read_tokens(step, state, tokens, count):
    """Read tokens 0 … count - 1 of (B, L) in one pass, none if the count is 0.

    Returns:
        The new state, and the log-probability (B,) of tokens 1 … count.
    """

    def read():
        logits, new_state = step(tokens[:, :count], state, 0)
        log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        chosen = ops.take_along_axis(log_probs, tokens[:, 1 : count + 1, None], axis=-1)
        carry = restore_shapes(new_state["carry"], state["carry"])
        return carry, ops.sum(ops.maximum(chosen, MIN_LOG_PROB), axis=(1, 2))

    def skip():
        return state["carry"], ops.zeros(ops.shape(tokens)[:1], "float32")

    carry, log_prob = read() if isinstance(count, int) else ops.cond(count > 0, read, skip)
    return state | {"carry": carry}, log_prob


def _pad_prefix(prefix, batch_size, max_length, pad_id):
    """A prefix (B, P), padded to (B, P + max_length)."""
    prefix = ops.cast(prefix, "int32")
    length = prefix.shape[1]
    sizes_are_known = isinstance(length, int) and isinstance(max_length, int)
    if sizes_are_known and length > max_length:
        raise ValueError(f"prefix must fit in max_length={max_length}; got a prefix of {length}")
    padding = ops.full((batch_size, max_length), pad_id, dtype="int32")
    return ops.concatenate([prefix, padding], axis=1)


def _check_ids(vocab_size, **ids):
    for name, value in ids.items():
        if value >= vocab_size:
            raise ValueError(
                f"{name} must lie below the model's {vocab_size} logits; got {name}={value}"
            )
