"""The command `classify-text`. It imports TensorFlow only when it runs."""

from functools import partial

from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.options import Model, Texts
from tfx_transformer.train.tasks.batch_files import NO_FILES, Files, LineWork, answer_files
from tfx_transformer.train.tasks.lines import read_chunks, warn_truncated

ADVICE = "the model is trained for texts of --data.max-length tokens"


def classify_text(
    model: Model,
    text: Texts,
    top_k: int = 1,
    batch_size: int = 64,
    files: Files = NO_FILES,
) -> None:
    """Classify texts, or the lines of files or of standard input: one line for each.

    Args:
        model: a run folder or an export.
        text: texts; without any, and without input, standard input is read.
        top_k: number of classes to print for each text, the most likely first.
        batch_size: texts that are classified together.
        files: instead of texts.
    """
    check_exists(model=model)
    show = partial(show_classes, top_k)
    if files.are_given(text=text):
        work = LineWork(model, "text_classification", {"top_k": top_k}, show, batch_size)
        warn_truncated(answer_files(files, work), ADVICE)
        return
    start_tensorflow()
    from tfx_transformer.train.run_folder import load_pipeline

    classifier = load_pipeline(model, "text_classification", top_k=top_k)
    truncated = 0
    for chunk in [list(text)] if text else read_chunks(16 * batch_size):
        for result, line in zip(classifier.results(chunk, batch_size), chunk, strict=True):
            print(show(result, line), flush=True)
            truncated += result.truncated
    warn_truncated(truncated, ADVICE)


def show_classes(top_k: int, result, text: str) -> str:
    """The classes with their probabilities, and the text."""
    best = [f"{label} {score:.3f}" for label, score in result.classes[:top_k]]
    return "\t".join([*best, text])


COMMAND = classify_text
