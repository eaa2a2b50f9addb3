"""The outputs of a request: parts joined, without padding for other requests of their batches."""

import threading
from concurrent.futures import CancelledError, Future
from typing import Any

import numpy as np

from tfx_transformer.serving.errors import Unavailable

LENGTHS = {"target": ("pieces", "tokens"), "source": ("source_pieces",)}  # outputs that show them
PADDED = {  # padded axes of outputs, counted from the last
    "tokens": {-1: "target"},  # (B, T) or (B, n_best, T)
    "pieces": {-1: "target"},  # (B, T)
    "source_pieces": {-1: "source"},  # (B, S)
    "alignment": {-2: "target", -1: "source"},  # (B, T, S)
    "attention": {-2: "target", -1: "source"},  # (B, blocks, H, T, S)
    "weights": {-3: "target"},  # (B, T, rows, columns)
}


def trim(outputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs as wide as the longest of their own rows."""
    lengths = {}
    for side, names in LENGTHS.items():
        name = next((name for name in names if name in outputs), None)
        if name is not None:
            used = np.nonzero(outputs[name].astype(bool))[-1]  # columns
            lengths[side] = int(used.max(initial=-1)) + 1
    return {name: _cut(x, PADDED.get(name, {}), lengths) for name, x in outputs.items()}


def _cut(x: np.ndarray, sides: dict[int, str], lengths: dict[str, int]) -> np.ndarray:
    for axis, side in sides.items():
        if side in lengths:
            x = x[(*[slice(None)] * (x.ndim + axis), slice(lengths[side]))]
    return x


def join(parts: list[tuple[np.ndarray, dict[str, np.ndarray]]]) -> dict[str, np.ndarray]:
    """Parts of a request, each with the indices of its rows, padded to the widest."""
    if len(parts) == 1:
        return parts[0][1]
    count = sum(len(rows) for rows, _ in parts)
    whole = {}
    for name, first in parts[0][1].items():
        width = np.max([outputs[name].shape[1:] for _, outputs in parts], axis=0).astype(int)
        padding = b"" if first.dtype == object else 0
        whole[name] = np.full((count, *width), padding, first.dtype)
        for rows, outputs in parts:
            x = outputs[name]
            area: tuple[Any, ...] = (rows, *[slice(size) for size in x.shape[1:]])
            whole[name][area] = x
    return whole


def gather(parts: list[tuple[np.ndarray, Future]]) -> Future:
    """One future of the joined outputs; to cancel it cancels the parts."""
    whole: Future = Future()
    lock, left = threading.Lock(), len(parts)

    def finish(_) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left:
                return
        if not whole.set_running_or_notify_cancel():
            return
        try:
            whole.set_result(join([(rows, future.result()) for rows, future in parts]))
        except CancelledError:
            whole.set_exception(Unavailable("the request was canceled"))
        except Exception as error:
            whole.set_exception(error)

    def cancel(_) -> None:
        if whole.cancelled():
            for _, future in parts:
                future.cancel()

    whole.add_done_callback(cancel)
    for _, future in parts:
        future.add_done_callback(finish)
    return whole
