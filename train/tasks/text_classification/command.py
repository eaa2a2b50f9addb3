"""The command `classify-text`. It imports TensorFlow only when it runs."""

import tyro

from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.tasks.lines import read_chunks, warn_truncated


def classify_text(
    model: tyro.conf.Positional[str],
    text: tyro.conf.Positional[tuple[str, ...]],
    top_k: int = 1,
    batch_size: int = 64,
) -> None:
    """Classify texts, or the lines of standard input: one line for each.

    Args:
        model: a run folder or an export.
        text: texts; without any, standard input is read.
        top_k: number of classes to print for each text, the most likely first.
        batch_size: texts that are classified together.
    """
    check_exists(model=model)
    start_tensorflow()
    from tfx_transformer.train.loading import load_pipeline

    classifier = load_pipeline(model, "text_classification", top_k=top_k)
    truncated = 0
    for chunk in [list(text)] if text else read_chunks(16 * batch_size):
        for result, line in zip(classifier.results(chunk, batch_size), chunk, strict=True):
            best = [f"{label} {score:.3f}" for label, score in result.classes[:top_k]]
            print("\t".join([*best, line]), flush=True)
            truncated += result.truncated
    warn_truncated(truncated, "the model is trained for texts of --data.max-length tokens")


COMMAND = classify_text
