"""What all decoders share: the call, its task, and one constrained step of the model."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keras import ops

from tfx_transformer.checks import check_positive, check_whole
from tfx_transformer.decoding.constraints import (
    forbid_end,
    forbid_repeats,
    forbid_tokens,
    is_allowed,
)
from tfx_transformer.decoding.loop import repeat_rows


@dataclass(frozen=True)
class Task:
    """One call of a decoder. Each of B sentences has `copies` rows in the model: N = B · copies."""

    step: Callable
    fixed: Any  # state that depends on the source alone, (N, …)
    moving: Any  # state before the first step, (N, …)
    batch_size: Any  # B, a whole number or a scalar tensor
    copies: int
    max_length: Any  # a whole number or a scalar tensor
    start_id: int
    end_id: int
    pad_id: int
    forced: Any  # (N, max_length or more) tokens, PAD where the decoder is free; or None
    limit: Any  # (B,) lengths at which sentences are cut off

    @property
    def num_rows(self):
        """N."""
        return self.batch_size * self.copies

    def empty_tokens(self):
        """(N, 1 + max_length): column p is position p of a row; START stands at position 0."""
        start = ops.full((self.num_rows, 1), self.start_id, dtype="int32")
        rest = ops.full((self.num_rows, self.max_length), self.pad_id, dtype="int32")
        return ops.concatenate([start, rest], axis=1)

    def must_come(self, best, index):
        """The tokens (N,) that must come at position index + 1, and where they must, (N,).

        These are the prefix, and END where even the `best` log-probability (N,) is not allowed.
        """
        is_stuck = ops.logical_not(is_allowed(best))
        if self.forced is None:
            return ops.full_like(best, self.end_id, dtype="int32"), is_stuck
        forced = ops.take(self.forced, index, axis=1)
        is_forced = forced != self.pad_id
        return ops.where(is_forced, forced, self.end_id), ops.logical_or(is_forced, is_stuck)


@dataclass(frozen=True)
class Decoder(abc.ABC):
    """Finds likely token sequences for a model of which it knows one function.

    Args:
        min_length: END is forbidden until so many tokens stand.
        no_repeat_ngram: no sequence of so many tokens comes twice; 0 allows all.
        forbidden: ids that are never generated. START and PAD never are; END cannot be forbidden,
            and where these rules leave nothing else to a sentence, it ends.

    Call arguments:
        step: `step(tokens, state, index) -> logits, state`. The tokens (N,) at position `index`,
            a scalar, of N rows → logits (N, V) of position index + 1.
        state: {"fixed": structure, "moving": structure} of tensors (B, …). What is fixed depends
            on the source alone: it is repeated once, and never reordered. What moves depends on
            the tokens so far, and keeps its shapes.
        batch_size: B, a whole number or a scalar tensor.
        max_length: room for generated tokens, END included; a whole number or a scalar tensor.
        start_id, end_id, pad_id: the special tokens.
        prefix: (B, P) forced first tokens, P ≤ max_length; rows are padded on the right with PAD.
            Constraints do not bind them, but see them.
        limit: a scalar or (B,), a smaller max_length of each sentence. What reaches it without
            END is cut off there.

    Returns:
        A dict. "tokens" (B, n_best, max_length) without START, with END, and PAD behind;
        "log_prob" (B, n_best) the sum of the model's own log-probabilities of these tokens, forced
        ones included; "score" (B, n_best) what they are ranked by; "length" (B, n_best) with END.
    """

    min_length: int = 0
    no_repeat_ngram: int = 0
    forbidden: tuple[int, ...] = ()

    def __post_init__(self):
        check_whole(min_length=self.min_length, no_repeat_ngram=self.no_repeat_ngram)
        object.__setattr__(self, "forbidden", tuple(self.forbidden))  # a list, if read from JSON
        for token in self.forbidden:
            check_whole(forbidden=token)

    @property
    def copies(self) -> int:
        """How many rows of the model a sentence takes."""
        return 1

    @abc.abstractmethod
    def search(self, task: Task) -> dict[str, Any]:
        """The result of a call, with START still before the tokens."""

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
    ) -> dict[str, Any]:
        if isinstance(max_length, int):
            check_positive(max_length=max_length)
        check_whole(start_id=start_id, end_id=end_id, pad_id=pad_id)
        if end_id in self.forbidden:
            raise ValueError(f"forbidden must not hold end_id={end_id}; got {self.forbidden}")
        self.check_state(state)
        forced = None if prefix is None else _extend(prefix, batch_size, max_length, pad_id)
        limit = max_length if limit is None else ops.cast(limit, "int32")
        state = repeat_rows(state, self.copies)
        task = Task(
            step=step,
            fixed=state["fixed"],
            moving=state["moving"],
            batch_size=batch_size,
            copies=self.copies,
            max_length=max_length,
            start_id=start_id,
            end_id=end_id,
            pad_id=pad_id,
            forced=None if forced is None else repeat_rows(forced, self.copies),
            limit=ops.broadcast_to(ops.minimum(limit, max_length), (batch_size,)),
        )
        found = self.search(task)
        return found | {"tokens": found["tokens"][:, :, 1:]}

    def check_state(self, state):
        if not isinstance(state, dict) or not {"fixed", "moving"} <= state.keys():
            got = sorted(state) if isinstance(state, dict) else type(state).__name__
            raise ValueError(f'state must be a dict with "fixed" and "moving"; got {got}')

    def advance(self, task, tokens, moving, index):
        """One step of the model behind tokens (N, 1 + max_length), known up to position `index`.

        Returns:
            Log-probabilities (N, V) of the next token, the same as the constraints leave them, and
            the moving state.
        """
        newest = ops.take(tokens, index, axis=1)
        state = {"fixed": task.fixed, "moving": moving}
        logits, state = task.step(newest, state, index)
        vocab_size = logits.shape[-1]
        _check_ids(
            vocab_size,
            start_id=task.start_id,
            end_id=task.end_id,
            pad_id=task.pad_id,
            forbidden=max(self.forbidden, default=0),
        )

        logits = ops.reshape(ops.cast(logits, "float32"), (task.num_rows, vocab_size))
        log_probs = ops.log_softmax(logits, axis=-1)
        banned = {task.start_id, task.pad_id, *self.forbidden} - {task.end_id}
        allowed = forbid_tokens(log_probs, banned)  # END may be START or PAD too, in some models
        if self.no_repeat_ngram:
            allowed = forbid_repeats(allowed, tokens[:, 1:], index, self.no_repeat_ngram)
        if self.min_length:
            allowed = forbid_end(allowed, task.end_id, index < self.min_length)
        return log_probs, allowed, state["moving"]


def _extend(prefix, batch_size, max_length, pad_id):
    """A prefix (B, P) with PAD behind it for all positions: (B, P + max_length)."""
    prefix = ops.cast(prefix, "int32")
    length = prefix.shape[1]
    sizes_are_known = isinstance(length, int) and isinstance(max_length, int)
    if sizes_are_known and length > max_length:
        raise ValueError(f"prefix must fit in max_length={max_length}; got a prefix of {length}")
    room = ops.full((batch_size, max_length), pad_id, dtype="int32")
    return ops.concatenate([prefix, room], axis=1)


def _check_ids(vocab_size, **ids):
    for name, value in ids.items():
        if value >= vocab_size:
            raise ValueError(
                f"{name} must lie below the model's {vocab_size} logits; got {name}={value}"
            )
