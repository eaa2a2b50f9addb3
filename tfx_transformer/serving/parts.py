"""Parts of a request that are computed at the same time: one future of all."""

import threading
from concurrent.futures import CancelledError, Future

import numpy as np

from tfx_transformer.serving.errors import Unavailable
from tfx_transformer.serving.outputs import join


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
