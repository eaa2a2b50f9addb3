"""Beam search with the length and coverage penalties of GNMT (arXiv:1609.08144, section 7)."""

from dataclasses import dataclass

from keras import ops

from tfx_transformer.checks import check_choice, check_positive
from tfx_transformer.decoding.constraints import FLOOR, FORBIDDEN, is_allowed
from tfx_transformer.decoding.decoder import Decoder
from tfx_transformer.decoding.loop import freeze, join, select, take_rows, while_loop, write


def length_penalty(length, alpha, rule="gnmt"):
    """What a log-probability is divided by: ((5 + length) / 6)^alpha, equation 14; or length^alpha,
    the "power" of fairseq, Hugging Face and CTranslate2."""
    length = ops.cast(length, "float32")
    return (length if rule == "power" else (5.0 + length) / 6.0) ** alpha


def coverage_penalty(coverage, source_mask):
    """Σ log(min(coverage, 1)) over the source, equation 14: (N, S) → (N,), at most 0.

    Coverage is the attention that a source token got, summed over the steps; none counts as 1e-9.
    """
    log_coverage = ops.log(ops.clip(ops.cast(coverage, "float32"), 1e-9, 1.0))
    return ops.sum(ops.where(source_mask, log_coverage, 0.0), axis=-1)


@dataclass(frozen=True)
class BeamDecoder(Decoder):
    """Keeps the `width` likeliest beginnings alive, and the `width` best sentences found so far.

    A step extends all live hypotheses by all tokens and looks at the 2 · width likeliest
    extensions. Those among the first `width` that end in END are finished; a finished hypothesis
    enters the list of finished ones by its score and changes no more. The `width` likeliest
    extensions without END live on. (That an END further down the list is dropped makes a beam of
    width 1 the greedy decoder.)

        score = log_prob / ((5 + length) / 6)^length_penalty + coverage penalty

    The result is the finished hypotheses in the order of their scores. Where there are fewer than
    n_best, the live ones follow, cut off at the limit, in the order of their scores: a whole
    sentence always goes before a piece. Where even these are too few (a tiny vocabulary), the
    rest have length 0, PAD alone, and -1e9 for score and log_prob.

    Arguments, call and returns as in `decoder.py`, and:

    Args:
        width: live, and finished, hypotheses for each sentence.
        length_penalty: alpha, 0 or more; 0 ranks by log-probability, more favours length.
        length_rule: "gnmt", as above, or "power": score = log_prob / length^length_penalty.
        coverage_penalty: beta, 0 or more. Above 0 the model keeps state["moving"]["coverage"]
            (N, S), its attention to the source summed over the steps, and
            state["fixed"]["source_mask"] (N, S), boolean.
        n_best: how many hypotheses to return, at most `width`.
        early_stop: whether a sentence stops as soon as no live hypothesis can enter its full list
            of finished ones. A live log-probability s can only fall, the divisor is largest at
            the limit, and coverage only takes away: with s ≤ 0 and alpha ≥ 0 no score to come
            exceeds s / ((5 + limit) / 6)^alpha. If that does not exceed the worst of `width`
            finished scores the list is final, so the result is the same as without stopping.
            "likely" takes the present length instead of the limit, as Hugging Face does if not
            told otherwise: sooner, but where alpha > 0 a long sentence that would win is missed.
    """

    width: int = 4
    length_penalty: float = 0.6
    length_rule: str = "gnmt"
    coverage_penalty: float = 0.0
    n_best: int = 1
    early_stop: bool | str = True

    def __post_init__(self):
        super().__post_init__()
        check_positive(width=self.width, n_best=self.n_best)
        check_choice("gnmt", "power", length_rule=self.length_rule)
        check_choice(True, False, "likely", early_stop=self.early_stop)
        if self.n_best > self.width:
            raise ValueError(
                f"n_best must not exceed width; got n_best={self.n_best}, width={self.width}"
            )
        for name in ("length_penalty", "coverage_penalty"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be 0 or more; got {name}={value!r}")

    @property
    def copies(self):
        return self.width

    def check_state(self, state):
        super().check_state(state)
        if self.coverage_penalty:
            for part, name in (("moving", "coverage"), ("fixed", "source_mask")):
                if not isinstance(state[part], dict) or name not in state[part]:
                    raise ValueError(
                        f'coverage_penalty={self.coverage_penalty} needs state["{part}"]["{name}"]'
                        f" (N, S), which this model does not keep"
                    )

    def search(self, task):
        shape = (task.batch_size, self.width)
        is_first = ops.arange(self.width) == 0  # all beginnings are alike: only one may be extended
        begin = ops.broadcast_to(ops.where(is_first, 0.0, FORBIDDEN), shape)
        nothing = ops.full(shape, FORBIDDEN, dtype="float32")
        tokens = ops.reshape(task.empty_tokens(), (*shape, 1 + task.max_length))
        length = ops.zeros(shape, "int32")
        live = {"tokens": tokens, "score": begin, "log_prob": begin, "length": length}
        finished = {"tokens": tokens, "score": nothing, "log_prob": nothing, "length": length}

        def is_running(index, live, finished, is_done, moving):
            return ops.logical_not(ops.all(is_done))

        def advance(index, live, finished, is_done, moving):
            rows = ops.reshape(live["tokens"], (task.num_rows, 1 + task.max_length))
            log_probs, allowed, moving = self.advance(task, rows, moving, index)
            log_prob, parents, token = self.extend(task, live, log_probs, allowed, index)
            extended = {
                "tokens": write(select(live["tokens"], parents), token, index + 1),
                "score": self.score(task, log_prob, parents, moving, index + 1),
                "log_prob": log_prob,
                "length": ops.broadcast_to(index + 1, ops.shape(token)),
            }  # (B, 2W, …)
            is_end = token == task.end_id
            new_live, places = keep_live(extended, is_end, self.width)
            new_finished = keep_finished(finished, extended, is_end, self.width)
            moving = self.reorder(task, moving, select(parents, places))

            live, finished = freeze(is_done, (live, finished), (new_live, new_finished))
            is_last = ops.logical_or(self.is_final(task, live, finished), index + 1 >= task.limit)
            return index + 1, live, finished, ops.logical_or(is_done, is_last), moving

        index = ops.convert_to_tensor(0, dtype="int32")
        variables = (index, live, finished, task.limit < 1, task.moving)
        _, live, finished, _, _ = while_loop(is_running, advance, variables)
        return rank(live, finished, self.n_best, task.pad_id)

    def extend(self, task, live, log_probs, allowed, index):
        """The likeliest extensions: log-probabilities, live parents and tokens, (B, 2W) each."""
        num_tokens = min(2 * self.width, log_probs.shape[-1])  # none further down can be needed
        gain, token = ops.top_k(allowed, num_tokens)  # (N, num_tokens)
        best = ops.max(gain, axis=-1)  # gain[:, 0] would make XLA sort the whole vocabulary instead
        required, is_required = (x[:, None] for x in task.must_come(best, index))
        only = ops.maximum(select(log_probs, required), FLOOR)  # (N, 1)
        only = ops.where(ops.arange(num_tokens) == 0, only, FORBIDDEN)
        gain = ops.where(is_required, only, gain)
        token = ops.where(is_required, required, ops.cast(token, "int32"))

        num_extensions = self.width * num_tokens
        gain = ops.reshape(gain, (task.batch_size, self.width, num_tokens))
        total = ops.maximum(live["log_prob"][:, :, None] + gain, FORBIDDEN)  # a model may say -inf
        total = ops.reshape(total, (task.batch_size, num_extensions))
        token = ops.reshape(token, (task.batch_size, num_extensions))
        log_prob, places = ops.top_k(total, min(2 * self.width, num_extensions))
        return log_prob, places // num_tokens, select(token, places)

    def score(self, task, log_prob, parents, moving, length):
        """What hypotheses (B, 2W) of one length are ranked by."""
        score = log_prob / length_penalty(length, self.length_penalty, self.length_rule)
        if self.coverage_penalty:
            penalty = coverage_penalty(moving["coverage"], task.fixed["source_mask"])
            penalty = ops.reshape(penalty, (task.batch_size, self.width))
            score = score + self.coverage_penalty * select(penalty, parents)
        return score

    def reorder(self, task, moving, parents):
        """The moving state (N, …) of the rows that the live hypotheses (B, W) came from."""
        if self.width == 1:
            return moving
        first = ops.arange(task.batch_size, dtype="int32")[:, None] * self.width
        return take_rows(moving, ops.reshape(first + parents, (task.num_rows,)))

    def is_final(self, task, live, finished):
        """Where nothing alive can change the list of finished hypotheses any more: (B,)."""
        likeliest = live["log_prob"][:, 0]
        is_final = ops.logical_not(is_allowed(likeliest))
        if self.early_stop:
            length = live["length"][:, 0] if self.early_stop == "likely" else task.limit
            bound = likeliest / length_penalty(length, self.length_penalty, self.length_rule)
            is_final = ops.logical_or(is_final, bound <= finished["score"][:, -1])
        return is_final


def keep_live(extended, is_end, width):
    """The `width` likeliest extensions without END, and where they stood (B, W)."""
    log_prob = ops.where(is_end, FORBIDDEN, extended["log_prob"])
    log_prob, places = ops.top_k(log_prob, width)
    return select(extended, places) | {"log_prob": log_prob}, places


def keep_finished(finished, extended, is_end, width):
    """The `width` best among the finished and those extensions that end now."""
    is_likely = ops.arange(is_end.shape[1]) < width
    is_new = ops.logical_and(ops.logical_and(is_end, is_likely), is_allowed(extended["log_prob"]))
    score = ops.where(is_new, extended["score"], FORBIDDEN)
    both = join(finished, extended | {"score": score})  # (B, 3W, …)
    return select(both, ops.top_k(both["score"], width)[1])


def rank(live, finished, n_best, pad_id):
    """Finished hypotheses first, then the live ones, each by score; blanks where both run out."""
    width = finished["score"].shape[1]
    score = ops.where(is_allowed(live["log_prob"]), live["score"], FORBIDDEN)
    score, places = ops.top_k(score, width)
    both = join(finished, select(live, places) | {"score": score})  # (B, 2W, …)
    count = ops.sum(ops.cast(is_allowed(finished["score"]), "int32"), axis=1, keepdims=True)
    places = ops.arange(n_best, dtype="int32")  # past the last finished one, on to the live ones
    best = select(both, ops.where(places < count, places, width + places - count))
    is_found = is_allowed(best["score"])  # (B, n_best)
    return {
        "tokens": ops.where(is_found[:, :, None], best["tokens"], pad_id),
        "score": ops.where(is_found, best["score"], FORBIDDEN),
        "log_prob": ops.where(is_found, best["log_prob"], FORBIDDEN),
        "length": ops.where(is_found, best["length"], 0),
    }
