"""Threads: all cores for one operation, or one for each and several batches at the same time.

A decoder has thousands of small operations, one after the other: a second thread gains little on
any of them. Models of images have few and large ones.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import tensorflow as tf

from tfx_transformer.export import read_info
from tfx_transformer.serving.options import ServingOptions
from tfx_transformer.serving.repository import find_versions

SMALL = {"generator", "question_answerer", "translator"}  # kinds whose operations are small


def choose_threads(
    options: ServingOptions,
    folders: Mapping[str, Path],
    kind_of: Callable[[Path], str] = lambda folder: read_info(folder)["kind"],
) -> ServingOptions:
    """The options with `threads`: those given, 1 if all models have small operations, or 0.

    Args:
        options: of the server.
        folders: by the names of the models; the kind of the newest version counts.
        kind_of: folder → a name in PIPELINES.
    """
    if options.threads:
        return options
    try:
        kinds = {kind_of(max(find_versions(folder).items())[1]) for folder in folders.values()}
    except (OSError, ValueError):  # reported when the model is loaded
        return options
    return replace(options, threads=int(kinds <= SMALL))


def set_threads(options: ServingOptions) -> None:
    """For the whole process, before its first operation."""
    if options.threads:
        tf.config.threading.set_intra_op_parallelism_threads(options.threads)
