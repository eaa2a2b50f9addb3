"""One path a row: choose a token, feed it back, until every row has ended."""

from keras import ops

from tfx_transformer.decoding.constraints import FLOOR
from tfx_transformer.decoding.loop import freeze, pick, while_loop, write


def walk(decoder, task, choose):
    """Follows `choose(allowed (N, V), index) -> tokens (N,)`; the results are (B, copies, …)."""
    limit = ops.repeat(task.limit, task.copies, axis=0)  # (N,)
    path = {
        "tokens": task.empty_tokens(),
        "log_prob": ops.zeros((task.num_rows,), "float32"),
        "length": ops.zeros((task.num_rows,), "int32"),
    }

    def is_running(index, path, is_done, moving):
        return ops.logical_not(ops.all(is_done))

    def advance(index, path, is_done, moving):
        log_probs, allowed, moving = decoder.advance(task, path["tokens"], moving, index)
        token = ops.cast(choose(allowed, index), "int32")
        required, is_required = task.must_come(pick(allowed, token), index)
        token = ops.where(is_required, required, token)
        longer = {
            "tokens": write(path["tokens"], token, index + 1),
            "log_prob": path["log_prob"] + ops.maximum(pick(log_probs, token), FLOOR),
            "length": path["length"] + 1,
        }
        path = freeze(is_done, path, longer)
        is_last = ops.logical_or(token == task.end_id, path["length"] >= limit)
        return index + 1, path, ops.logical_or(is_done, is_last), moving

    index = ops.convert_to_tensor(0, dtype="int32")
    _, path, _, _ = while_loop(is_running, advance, (index, path, limit < 1, task.moving))
    shape = (task.batch_size, task.copies)
    tokens = ops.reshape(path["tokens"], (*shape, 1 + task.max_length))
    log_prob, length = ops.reshape(path["log_prob"], shape), ops.reshape(path["length"], shape)
    return {"tokens": tokens, "score": log_prob, "log_prob": log_prob, "length": length}
