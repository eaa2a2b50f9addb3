"""Greedy decoding, and the loop that it shares with sampling: one token per row and step."""

from dataclasses import dataclass, replace

from keras import ops

from tfx_transformer.decoding.constraints import MIN_LOG_PROB
from tfx_transformer.decoding.decoder import Decoder
from tfx_transformer.decoding.loop import batch_gather, set_position


@dataclass(frozen=True)
class GreedyDecoder(Decoder):
    """Greedy decoding: the most likely token at each step.

    n_best is 1 and the score is the log-probability. Arguments, call and returns: see `Decoder`.
    """

    def search(self, call):
        return decode_rows(self, call, lambda call, allowed, index: ops.argmax(allowed, axis=-1))


def decode_rows(decoder, call, choose):
    """Decode with `choose(call, allowed (N, V), index) -> tokens (N,)`; results (B, n_best, …)."""
    shape = (call.batch_size, call.rows_per_sentence)
    limit = ops.repeat(call.limit, call.rows_per_sentence, axis=0)  # (N,)
    call = replace(call, batch_size=call.num_rows, rows_per_sentence=1, limit=limit)
    rows = {
        "tokens": call.first_tokens(),
        "log_prob": call.log_prob,
        "length": ops.broadcast_to(ops.cast(call.index, "int32"), (call.num_rows,)),
    }

    def make_step(call):
        def advance(index, rows, carry):
            log_probs, allowed, carry = decoder.advance(call, rows["tokens"], carry, index)
            token = ops.cast(choose(call, allowed, index), "int32")[:, None]
            required, only, is_required = call.required_tokens(
                log_probs, batch_gather(allowed, token), index
            )
            chosen = ops.maximum(batch_gather(log_probs, token), MIN_LOG_PROB)
            gain = ops.where(is_required, only, chosen)[:, 0]
            token = ops.where(is_required, required, token)[:, 0]
            rows = {
                "tokens": set_position(rows["tokens"], token, index + 1),
                "log_prob": rows["log_prob"] + gain,
                "length": rows["length"] + 1,
            }
            is_last = ops.logical_or(token == call.end_id, rows["length"] >= call.limit)
            return rows, is_last, carry

        return advance

    rows = call.run(make_step, rows)
    tokens = ops.reshape(rows["tokens"], (*shape, 1 + call.max_length))
    log_prob, length = ops.reshape(rows["log_prob"], shape), ops.reshape(rows["length"], shape)
    return {"tokens": tokens, "score": log_prob, "log_prob": log_prob, "length": length}
