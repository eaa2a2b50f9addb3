"""Batches: calls of a function at the same time are computed together, by a kernel of TensorFlow.

The kernel, which TensorFlow Serving uses too, concatenates the rows of waiting calls, pads them if
the function is compiled, runs the function once and returns to each call its own rows.
`tf.nondifferentiable_batch_function` is a wrapper of it which names the queue after a node of the
graph, so that two models could share one; here every queue has a name.

Calls in a batch run with the cancellation manager of its last call: to cancel one call would end
the others. Therefore a call is not cancelled once it is in the kernel, and few are: the others wait
in Python (`ServedModel`).
"""

import functools
import itertools
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import tensorflow as tf

from tfx_transformer.runtime import graph
from tfx_transformer.serving.errors import TooLarge
from tfx_transformer.serving.options import ServingOptions

TEXT_BYTES = (48, 64, 96, 128, 256)  # longest texts of the groups; the last one has no limit
MIN_WIDTH, MAX_WIDTH = 16, 512  # of token ids, for a model that states no length
_numbers = itertools.count()


class BatchedFunction:
    """A function of named tensors (B, …), computed in batches; threads may call it.

    Args:
        function: named tensors → named tensors, with a row for each row of the inputs.
        inputs: specifications by name.
        owner: functions of the same owner share threads.
        queues: only calls of the same queue share a batch.
        options: sizes and times of batches.
        pad: whether batches are padded to the allowed sizes: for XLA, which compiles each size.
    """

    def __init__(
        self,
        function: Callable,
        inputs: dict[str, tf.TensorSpec],
        owner: str,
        queues: Sequence[Hashable],
        options: ServingOptions,
        pad: bool = False,
    ):
        self.inputs = inputs
        self.outputs: list[str] = []

        def compute(*tensors):
            began = tf.timestamp()
            with tf.control_dependencies([began]):
                tensors = [tf.identity(x) for x in tensors]
            outputs = function(dict(zip(inputs, tensors, strict=True)))
            self.outputs = list(outputs)
            with tf.control_dependencies(list(outputs.values())):
                ended = tf.timestamp()
            rows = tf.shape(tensors[0])[0]
            facts = (began, ended, tf.cast(rows, tf.float64))
            return [*outputs.values(), tf.tile(tf.stack(facts)[None], [rows, 1])]

        computation = graph(compute, *inputs.values()).get_concrete_function()

        def enqueue(*tensors, queue):
            return tf.raw_ops.BatchFunction(
                in_tensors=tensors,
                captured_tensors=computation.captured_inputs,
                f=computation,
                num_batch_threads=options.num_batches,
                max_batch_size=options.max_batch_size,
                batch_timeout_micros=round(1000 * options.batch_timeout),
                Tout=[x.dtype for x in computation.outputs],
                max_enqueued_batches=options.max_waiting,
                allowed_batch_sizes=options.allowed_batch_sizes if pad else [],
                shared_name=f"batches of {owner}, {options}",  # threads with these options
                batching_queue=queue,
                enable_large_batch_splitting=False,
            )

        names = [f"{queue} {next(_numbers)}" for queue in queues]

        def choose(index, *tensors):
            """One function for all queues: for each function the computation is optimized again."""
            branches = [functools.partial(enqueue, *tensors, queue=name) for name in names]
            return tf.switch_case(index, branches) if names[1:] else branches[0]()

        index = tf.TensorSpec([], tf.int32)
        self._call = graph(choose, index, *inputs.values()).get_concrete_function()
        self._queues = {queue: i for i, queue in enumerate(queues)}

    def __call__(self, inputs: dict[str, np.ndarray], queue: Hashable):
        """Outputs by name, when the computation began and ended (`time.time`), the batch size."""
        tensors = [tf.constant(inputs[name], spec.dtype) for name, spec in self.inputs.items()]
        index = tf.constant(self._queues[queue])
        *values, facts = [x.numpy() for x in self._call(index, *tensors)]
        began, ended, size = facts[0].tolist()
        return dict(zip(self.outputs, values, strict=True)), began, ended, int(size)


class Lengths:
    """The groups of one signature.

    Texts are grouped by their length in bytes. Token ids (B, ?) are padded with 0 to few widths,
    each of which is a group: the kernel can only concatenate rows of equal width. Everything else,
    such as images, is one group.

    Args:
        inputs: specifications by name.
        max_length: maximum width of token ids.
    """

    def __init__(self, inputs: dict[str, tf.TensorSpec], max_length: int | None):
        self.ids = [name for name, spec in inputs.items() if spec.shape.as_list()[1:] == [None]]
        self.is_text = "text" in inputs
        longest = max_length or MAX_WIDTH
        widths = [MIN_WIDTH << i for i in range(16) if MIN_WIDTH << i < longest]
        self.widths = [*widths, longest]
        self.groups: list[int] = [0]
        if self.ids:
            self.groups = list(self.widths)
        elif self.is_text:
            self.groups = list(range(len(TEXT_BYTES) + 1))

    def group(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """The group of each row (B,)."""
        rows = len(next(iter(arrays.values())))
        if self.ids:
            width = max(arrays[name].shape[1] for name in self.ids)
            if width > self.widths[-1]:
                name = self.ids[0]
                raise TooLarge(f"{name} must have at most {self.widths[-1]} columns; got {width}")
            return np.full(rows, next(size for size in self.widths if size >= width))
        if self.is_text:
            return np.searchsorted(TEXT_BYTES, [len(text) for text in arrays["text"]])
        return np.zeros(rows, int)

    def pad(self, arrays: dict[str, np.ndarray], group: int) -> dict[str, np.ndarray]:
        """Token ids as wide as their group."""
        padded = {}
        for name in self.ids:
            x = arrays[name]  # (B, T)
            padded[name] = np.pad(x, ((0, 0), (0, group - x.shape[1])))
        return arrays | padded
