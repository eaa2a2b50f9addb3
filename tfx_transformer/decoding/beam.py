"""Beam search with the length and coverage penalties of GNMT (arXiv:1609.08144, section 7)."""

from dataclasses import dataclass
from typing import Literal

from keras import ops

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.decoding.constraints import MASKED, MIN_LOG_PROB, is_allowed
from tfx_transformer.decoding.decoder import Decoder
from tfx_transformer.decoding.loop import (
    batch_gather,
    concatenate,
    decode_loop,
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

    def check_state(self, state):
        super().check_state(state)
        if self.coverage_penalty:
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
        masked = ops.full(shape, MASKED, dtype="float32")
        tokens = ops.reshape(call.first_tokens(), (*shape, 1 + call.max_length))
        length = ops.zeros(shape, "int32")
        live = {"tokens": tokens, "score": first, "log_prob": first, "length": length}
        finished = {"tokens": tokens, "score": masked, "log_prob": masked, "length": length}

        def advance(index, hypotheses, carry):
            live, finished = hypotheses
            rows = ops.reshape(live["tokens"], (call.num_rows, 1 + call.max_length))
            log_probs, allowed, carry = self.advance(call, rows, carry, index)
            log_prob, parents, token = self.extend(call, live, log_probs, allowed, index)
            extended = {
                "tokens": set_position(batch_gather(live["tokens"], parents), token, index + 1),
                "score": self.score(call, log_prob, parents, carry, index + 1),
                "log_prob": log_prob,
                "length": ops.broadcast_to(index + 1, ops.shape(token)),
            }  # (B, 2W, …)
            is_end = token == call.end_id
            live, indices = keep_live(extended, is_end, self.width)
            finished = keep_finished(finished, extended, is_end, self.width)
            carry = self.reorder(call, carry, batch_gather(parents, indices))
            is_last = ops.logical_or(self.is_final(call, live, finished), index + 1 >= call.limit)
            return (live, finished), is_last, carry

        is_done, first = call.limit < 1, (live, finished)
        live, finished = decode_loop(advance, first, is_done, call.carry, call.index)
        return rank(live, finished, self.n_best, call.pad_id)

    def extend(self, call, live, log_probs, allowed, index):
        """The most likely extensions: log-probabilities, live parents and tokens, (B, 2W) each."""
        num_tokens = min(2 * self.width, log_probs.shape[-1])  # no row can contribute more
        gain, token = ops.top_k(allowed, num_tokens)  # (N, num_tokens)
        best = ops.max(gain, axis=-1)  # gain[:, 0] would make XLA sort the whole vocabulary instead
        required, is_required = (x[:, None] for x in call.required_tokens(best, index))
        only = ops.maximum(batch_gather(log_probs, required), MIN_LOG_PROB)  # (N, 1)
        only = ops.where(ops.arange(num_tokens) == 0, only, MASKED)
        gain = ops.where(is_required, only, gain)
        token = ops.where(is_required, required, ops.cast(token, "int32"))

        num_extensions = self.width * num_tokens
        gain = ops.reshape(gain, (call.batch_size, self.width, num_tokens))
        total = ops.maximum(live["log_prob"][:, :, None] + gain, MASKED)  # logits may be -inf
        total = ops.reshape(total, (call.batch_size, num_extensions))
        token = ops.reshape(token, (call.batch_size, num_extensions))
        log_prob, indices = ops.top_k(total, min(2 * self.width, num_extensions))
        return log_prob, indices // num_tokens, batch_gather(token, indices)

    def score(self, call, log_prob, parents, carry, length):
        """The scores of hypotheses (B, 2W) of one length."""
        score = log_prob / length_penalty(length, self.length_penalty, self.length_rule)
        if self.coverage_penalty:
            penalty = coverage_penalty(carry["coverage"], call.constant["source_mask"])
            penalty = ops.reshape(penalty, (call.batch_size, self.width))
            score = score + self.coverage_penalty * batch_gather(penalty, parents)
        return score

    def reorder(self, call, carry, parents):
        """The carry (N, …) of the parents (B, W) of the live hypotheses."""
        if self.width == 1:
            return carry
        first = ops.arange(call.batch_size, dtype="int32")[:, None] * self.width
        return take_rows(carry, ops.reshape(first + parents, (call.num_rows,)))

    def is_final(self, call, live, finished):
        """Whether no live hypothesis can enter the list of finished ones any more: (B,).

        A live log-probability s ≤ 0 only falls, the divisor is largest at the limit, and coverage
        only subtracts: no later score exceeds s / ((5 + limit) / 6)^alpha.
        """
        best = live["log_prob"][:, 0]
        is_final = ops.logical_not(is_allowed(best))
        last = finished["score"][:, -1]
        if self.early_stop == "full":
            is_final = ops.logical_or(is_final, is_allowed(last))
        elif self.early_stop:
            length = live["length"][:, 0] if self.early_stop == "likely" else call.limit
            bound = best / length_penalty(length, self.length_penalty, self.length_rule)
            is_final = ops.logical_or(is_final, bound <= last)
        return is_final


def keep_live(extended, is_end, width):
    """The `width` most likely extensions without END, and their indices (B, W)."""
    log_prob = ops.where(is_end, MASKED, extended["log_prob"])
    log_prob, indices = ops.top_k(log_prob, width)
    return batch_gather(extended, indices) | {"log_prob": log_prob}, indices


def keep_finished(finished, extended, is_end, width):
    """The `width` best of the finished hypotheses and the extensions that end now."""
    is_likely = ops.arange(is_end.shape[1]) < width
    is_new = ops.logical_and(ops.logical_and(is_end, is_likely), is_allowed(extended["log_prob"]))
    score = ops.where(is_new, extended["score"], MASKED)
    both = concatenate(finished, extended | {"score": score})  # (B, 3W, …)
    return batch_gather(both, ops.top_k(both["score"], width)[1])


def rank(live, finished, n_best, pad_id):
    """Finished hypotheses by score, then live ones by score, then empty ones."""
    width = finished["score"].shape[1]
    score = ops.where(is_allowed(live["log_prob"]), live["score"], MASKED)
    score, indices = ops.top_k(score, width)
    both = concatenate(finished, batch_gather(live, indices) | {"score": score})  # (B, 2W, …)
    count = ops.sum(ops.cast(is_allowed(finished["score"]), "int32"), axis=1, keepdims=True)
    indices = ops.arange(n_best, dtype="int32")  # after the last finished one, the live ones
    best = batch_gather(both, ops.where(indices < count, indices, width + indices - count))
    is_real = is_allowed(best["score"])  # (B, n_best)
    return {
        "tokens": ops.where(is_real[:, :, None], best["tokens"], pad_id),
        "score": ops.where(is_real, best["score"], MASKED),
        "log_prob": ops.where(is_real, best["log_prob"], MASKED),
        "length": ops.where(is_real, best["length"], 0),
    }
