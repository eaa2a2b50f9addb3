"""Beam search with the length and coverage penalties of GNMT (arXiv:1609.08144, section 7)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from keras import ops

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.decoding.constraints import MASKED, is_allowed
from tfx_transformer.decoding.decoder import Decoder
from tfx_transformer.decoding.loop import (
    batch_gather,
    concatenate,
    set_position,
    take_rows,
)


def length_penalty(length, alpha, rule="gnmt"):
    """The divisor of a log-probability: "gnmt", ((5 + length) / 6)^alpha, equation 14, or "power",
    length^alpha, as in fairseq, Hugging Face and CTranslate2."""
    length = ops.cast(length, "float32")
    return (length if rule == "power" else (5.0 + length) / 6.0) ** alpha


def coverage_penalty(coverage, source_mask):
    """Σ log(min(coverage, 1)) over the source, equation 14: (N, S) → (N,), at most 0.

    Coverage is the attention to a source token, summed over the steps; 0 counts as 1e-9.
    """
    log_coverage = ops.log(ops.clip(ops.cast(coverage, "float32"), 1e-9, 1.0))
    return ops.sum(ops.where(source_mask, log_coverage, 0.0), axis=-1)


@dataclass(frozen=True)
class BeamDecoder(Decoder):
    """Beam search: keeps the `width` most likely live and the `width` best finished hypotheses.

    A step extends all live hypotheses by all tokens and takes the 2 · width most likely extensions.
    Those among the first `width` that end in END are finished, and enter the list of finished
    hypotheses by their score. The `width` most likely extensions without END stay live. (Dropping
    an END further down the list makes a beam of width 1 greedy decoding.)

    The result is the finished hypotheses by score. If there are fewer than n_best, the live ones
    follow, cut off at the limit, by score. If even these are too few (a tiny vocabulary), the rest
    have length 0, PAD only, and -1e9 for score and log_prob.

    With a `coverage_penalty` above 0 the model must keep state["carry"]["coverage"] (N, S), its
    attention to the source summed over the steps, and state["constant"]["source_mask"] (N, S),
    boolean.

    Arguments, call and returns: see `Decoder`, and:

    Args:
        width: beam width: number of live, and of finished, hypotheses per sentence.
        length_penalty: 0 or more; 0 ranks by log-probability, more favors long sentences.
        length_rule: "gnmt": score = log_prob / ((5 + length) / 6)^length_penalty + the coverage
            penalty; "power": the same with length^length_penalty.
        coverage_penalty: 0 or more; more favors translations of all source tokens.
        n_best: number of hypotheses to return, at most `width`.
        early_stop: stop a sentence as soon as no live hypothesis can enter its `width` best; the
            result stays the same. "likely" stops sooner, like Hugging Face's default, and "full" as
            soon as there are `width` finished hypotheses, like CTranslate2: with a length penalty
            both may miss a better long sentence.
    """

    width: int = 4
    length_penalty: float = 0.6
    length_rule: Literal["gnmt", "power"] = "gnmt"
    coverage_penalty: float = 0.0
    n_best: int = 1
    early_stop: Literal[True, False, "likely", "full"] = True

    def __post_init__(self):
        super().__post_init__()
        check_positive(width=self.width, n_best=self.n_best)
        check_choice("gnmt", "power", length_rule=self.length_rule)
        check_choice(True, False, "likely", "full", early_stop=self.early_stop)
        if self.n_best > self.width:
            raise ValueError(
                f"n_best must not exceed width; got n_best={self.n_best}, width={self.width}"
            )
        for name in ("length_penalty", "coverage_penalty"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be 0 or more; got {name}={value!r}")

    @property
    def rows_per_sentence(self):
        return self.width

    @property
    def needs_coverage(self):
        return self.coverage_penalty > 0

    def check_state(self, state):
        super().check_state(state)
        if self.needs_coverage:
            for part, name in (("carry", "coverage"), ("constant", "source_mask")):
                if not isinstance(state[part], dict) or name not in state[part]:
                    raise ValueError(
                        f'coverage_penalty={self.coverage_penalty} needs state["{part}"]["{name}"]'
                        f" (N, S), which this model does not keep"
                    )

    def search(self, call):
        shape = (call.batch_size, self.width)
        is_first = ops.arange(self.width) == 0  # all rows begin alike: only one may be extended
        first = ops.where(is_first, ops.reshape(call.log_prob, shape), MASKED)
        tokens = ops.reshape(call.first_tokens(), (*shape, 1 + call.max_length))
        live = {"tokens": tokens, "log_prob": first, "score": first}
        none = ops.full(shape, MASKED, dtype="float32")
        finished = {"tokens": tokens, "values": stack_values(none, none, 0)}

        def make_step(call):
            first_rows = ops.arange(call.batch_size, dtype="int32")[:, None] * self.width  # (B, 1)
            largest = length_penalty(call.limit, self.length_penalty, self.length_rule)

            def advance(index, hypotheses, carry):
                live, finished = hypotheses
                log_probs, allowed, carry = self.advance(call, live["tokens"], carry, index)
                log_prob, parents, token = self.extend(call, live, log_probs, allowed, index)
                divisor = length_penalty(index + 1, self.length_penalty, self.length_rule)
                extended = {
                    "tokens": set_position(batch_gather(live["tokens"], parents), token, index + 1),
                    "log_prob": log_prob,
                    "score": self.score(call, log_prob, parents, carry, divisor),
                }  # (B, 2W, …)
                is_end = token == call.end_id
                live, indices = keep_live(extended, is_end, self.width)
                finished = keep_finished(finished, extended, is_end, index + 1, self.width)
                if self.width > 1:
                    rows = first_rows + batch_gather(parents, indices)
                    carry = take_rows(carry, ops.reshape(rows, (-1,)))
                is_final = self.is_final(
                    live, finished, divisor if self.early_stop == "likely" else largest
                )
                return (live, finished), ops.logical_or(is_final, index + 1 >= call.limit), carry

            return advance

        live, finished = call.run(make_step, (live, finished))
        return rank(live, finished, ops.maximum(call.limit, 0), self.n_best, call.pad_id)

    def extend(self, call, live, log_probs, allowed, index):
        """The most likely extensions: log-probabilities, live parents and tokens, (B, 2W) each."""
        num_tokens = min(2 * self.width, log_probs.shape[-1])  # no row can contribute more
        gain, token = ops.top_k(allowed, num_tokens)  # (N, num_tokens)
        # gain[:, :1] would make XLA sort the whole vocabulary instead
        best = ops.max(gain, axis=-1, keepdims=True)
        required, only, is_required = call.required_tokens(log_probs, best, index)
        only = ops.where(np.arange(num_tokens) == 0, only, MASKED)
        gain = ops.where(is_required, only, gain)
        token = ops.where(is_required, required, ops.cast(token, "int32"))

        gain = ops.reshape(gain, (-1, self.width, num_tokens))
        total = ops.maximum(live["log_prob"][:, :, None] + gain, MASKED)  # logits may be -inf
        num_extensions = self.width * num_tokens
        total = ops.reshape(total, (-1, num_extensions))
        token = ops.reshape(token, (-1, num_extensions))
        log_prob, indices = ops.top_k(total, min(2 * self.width, num_extensions))
        return log_prob, indices // num_tokens, batch_gather(token, indices)

    def score(self, call, log_prob, parents, carry, divisor):
        """The scores of hypotheses (B, 2W) of one length, with its length penalty."""
        score = log_prob / divisor
        if self.coverage_penalty:
            penalty = coverage_penalty(carry["coverage"], call.constant["source_mask"])
            penalty = ops.reshape(penalty, (call.batch_size, self.width))
            score = score + self.coverage_penalty * batch_gather(penalty, parents)
        return score

    def is_final(self, live, finished, divisor):
        """Whether no live hypothesis can enter the list of finished ones any more: (B,).

        A live log-probability s ≤ 0 only falls, and coverage only subtracts: no later score exceeds
        s / the largest length penalty, that of the limit.
        """
        best = live["log_prob"][:, 0]
        is_final = ops.logical_not(is_allowed(best))
        if not self.early_stop:
            return is_final
        last = finished["values"][:, -1, 0]
        enough = is_allowed(last) if self.early_stop == "full" else best / divisor <= last
        return ops.logical_or(is_final, enough)


def stack_values(score, log_prob, length):
    """Values of hypotheses (B, M) as one tensor (B, M, 3), which is gathered at once."""
    length = ops.zeros_like(score) + ops.cast(length, "float32")
    return ops.stack([score, log_prob, length], axis=-1)


def keep_live(extended, is_end, width):
    """The `width` most likely extensions without END, and their indices (B, W)."""
    log_prob = ops.where(is_end, MASKED, extended["log_prob"])
    log_prob, indices = ops.top_k(log_prob, width)
    others = {name: extended[name] for name in ("tokens", "score")}
    return batch_gather(others, indices) | {"log_prob": log_prob}, indices


def keep_finished(finished, extended, is_end, length, width):
    """The `width` best of the finished hypotheses and the extensions that end now."""
    log_prob = extended["log_prob"]
    is_likely = np.arange(log_prob.shape[1]) < width
    is_new = ops.logical_and(ops.logical_and(is_end, is_likely), is_allowed(log_prob))
    score = ops.where(is_new, extended["score"], MASKED)
    values = stack_values(score, log_prob, length)
    both = concatenate(finished, {"tokens": extended["tokens"], "values": values})  # (B, 3W, …)
    return batch_gather(both, ops.top_k(both["values"][:, :, 0], width)[1])


def rank(live, finished, length, n_best, pad_id):
    """Finished hypotheses by score, then live ones of a length (B,) by score, then empty ones."""
    width = live["score"].shape[1]
    score = ops.where(is_allowed(live["log_prob"]), live["score"], MASKED)
    values = stack_values(score, live["log_prob"], length[:, None])
    live = batch_gather({"tokens": live["tokens"], "values": values}, ops.top_k(score, width)[1])
    both = concatenate(finished, live)  # (B, 2W, …)
    is_finished = is_allowed(finished["values"][:, :, 0])
    count = ops.sum(ops.cast(is_finished, "int32"), axis=1, keepdims=True)
    indices = ops.arange(n_best, dtype="int32")  # after the last finished one, the live ones
    best = batch_gather(both, ops.where(indices < count, indices, width + indices - count))
    score, log_prob, length = ops.unstack(best["values"], 3, axis=-1)  # (B, n_best)
    is_real = is_allowed(score)
    return {
        "tokens": ops.where(is_real[:, :, None], best["tokens"], pad_id),
        "score": ops.where(is_real, score, MASKED),
        "log_prob": ops.where(is_real, log_prob, MASKED),
        "length": ops.where(is_real, ops.cast(length, "int32"), 0),
    }
