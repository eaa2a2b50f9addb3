"""The command `answer`. It imports TensorFlow only when it runs."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.options import Model

Questions = Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="QUESTION …")]


def answer(model: Model, question: Questions, story: str = "", hops: bool = False) -> None:
    """Answer questions about a story: one line for each.

    Args:
        model: a run folder or an export.
        question: questions.
        story: a file with the story, a sentence on each line; without it, standard input is read.
        hops: show the story, with the weight of each sentence in each hop of the model.
    """
    if not question:
        raise ValueError("question must be given; for example: Where is Mary?")
    check_exists(model=model)
    if story:
        check_exists(story=story)
    elif sys.stdin.isatty():
        print("one sentence per line; Ctrl-D ends", file=sys.stderr, flush=True)
    text = read_story(story)
    start_tensorflow()
    from tfx_transformer.train.run_folder import load_pipeline

    answerer = load_pipeline(model, "question_answering")
    results = answerer.results([(text, each) for each in question])
    for result in results:
        print(f"{result.answer}\t{result.score:.3f}", flush=True)
        if hops:
            columns = zip(result.hops.T, result.sentences, strict=True)
            for weights, sentence in columns:
                print(" ".join(f"{weight:5.2f}" for weight in weights), sentence)
    if results[0].truncated:
        kept = len(results[0].sentences)
        print(f"the story is too long: its last {kept} sentences were read", file=sys.stderr)


def read_story(path: str) -> str:
    """The text of a file, or of standard input."""
    data = Path(path).read_bytes() if path else sys.stdin.buffer.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path or 'standard input'} is not UTF-8: {error}") from error


COMMAND = answer
