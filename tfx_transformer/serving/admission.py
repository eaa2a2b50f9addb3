"""Which requests of a model are accepted: up to a limit, and none that would be too late."""

import math
import threading
import time
from concurrent.futures import Future

from tfx_transformer.serving.errors import Overloaded, Unavailable
from tfx_transformer.serving.options import ServingOptions

SHARE = 0.7  # of its time that an accepted request may be expected to take
RECENT = 0.05  # weight of the last answer in the average
Ticket = tuple[float, float, int]  # when a request was accepted, its deadline, how many waited


class Admission:
    """Counts the parts of requests that wait or are computed.

    When a whole batch waits already, a request is also refused if it would not be answered in
    time, as the last answers show: it is better told at once than at its deadline.

    Args:
        name: of the model, for errors.
        limits: maximum number of waiting parts, and size of a batch.
    """

    def __init__(self, name: str, limits: ServingOptions):
        self.name, self.limits, self.waiting = name, limits, 0
        self._changed, self.is_closing = threading.Condition(), False
        self._pace = 0.0  # seconds for each part that waits

    def admit(self, count: int = 1, deadline: float = math.inf) -> Ticket:
        """Counts parts of a request; a large one is accepted if nothing else waits."""
        now = time.monotonic()
        with self._changed:
            if self.is_closing:
                raise Unavailable(f"{self.name} is being closed")
            total = self.waiting + count
            is_late = total * self._pace > SHARE * (deadline - now)
            if self.waiting and total > self.limits.max_waiting:
                raise Overloaded(f"{self.name} has {self.waiting} waiting requests; try later")
            if is_late and self.waiting >= self.limits.max_batch_size:
                raise Overloaded(f"{self.name} has too many waiting requests to answer in time")
            self.waiting = total
        return now, deadline, total

    def release(self, ticket: Ticket | None = None, future: Future | None = None) -> None:
        """Counts a part that is done; its time counts unless it was canceled early."""
        with self._changed:
            self.waiting -= 1
            if ticket is not None and future is not None:
                now, (accepted, deadline, total) = time.monotonic(), ticket
                is_enough = total >= self.limits.max_batch_size // 2  # one says little of batches
                if is_enough and (now >= deadline or not future.cancelled()):
                    pace = (now - accepted) / total
                    self._pace += RECENT * (pace - self._pace) if self._pace else pace
            self._changed.notify_all()

    def close(self) -> None:
        """Refuses new requests and waits for those that were accepted."""
        with self._changed:
            self.is_closing = True
            self._changed.wait_for(lambda: not self.waiting, self.limits.deadline)
