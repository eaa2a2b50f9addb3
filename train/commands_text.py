"""Commands on texts. Each imports TensorFlow only when it runs."""

import itertools
import sys
from collections.abc import Iterator

import tyro

from tfx_transformer.train.start import start_tensorflow


def translate(
    model: tyro.conf.Positional[str],
    text: tyro.conf.Positional[tuple[str, ...]],
    n_best: int = 1,
    alignment: bool = False,
    batch_size: int = 64,
) -> None:
    """Translate sentences, or the lines of standard input as they come, in order.

    Args:
        model: a run's folder, or an exported one.
        text: sentences; none reads standard input.
        n_best: above 1, so many translations of each, with their scores.
        alignment: show which words of the source each word was made from.
        batch_size: lines that are translated together.
    """
    start_tensorflow()
    from tfx_transformer.lines import translate_lines
    from tfx_transformer.plots import show_attention
    from tfx_transformer.train.serving import load_translate

    lines = iter(text) if text else read_lines()
    ahead = 1 if not text and sys.stdin.isatty() else 16 * batch_size
    for found in translate_lines(load_translate(model, n_best), lines, batch_size, ahead):
        if n_best == 1:
            print(found.text, flush=True)
        for candidate, score in found.n_best[:n_best] if n_best > 1 else ():
            print(f"{score:.4f}\t{candidate}", flush=True)
        if alignment:
            print(show_attention(found.alignment, found.pieces, found.source_pieces), flush=True)


def generate(
    model: tyro.conf.Positional[str],
    prompt: tyro.conf.Positional[str] = "",
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    max_length: int = 200,
    seed: int | None = None,
) -> None:
    """Go on with a text; a run writes it as it comes. What is not said is as the recipe has it.

    Args:
        model: a run's folder, or an exported one, whose way to draw is fixed.
        prompt: how the text begins.
        temperature: below 1 the likely becomes likelier; 0 always takes the likeliest.
        top_k: draw out of so many tokens; 0 takes all.
        top_p: draw out of the likeliest that make up this share.
        max_length: where the text is cut off, in tokens.
        seed: the same one draws the same.
    """
    start_tensorflow()
    from tfx_transformer.train.serving import load_generate

    write = load_generate(model, temperature, top_k, top_p, seed)
    print(prompt, end="", flush=True)
    for part in write(prompt, max_length):
        print(part, end="", flush=True)
    print()


def classify_text(
    model: tyro.conf.Positional[str],
    text: tyro.conf.Positional[tuple[str, ...]],
    top_k: int = 1,
    batch_size: int = 64,
) -> None:
    """Name the classes of texts, or of the lines of standard input: a line for each.

    Args:
        model: a run's folder, or an exported one.
        text: texts; none reads standard input.
        top_k: above 1, so many classes for each, the likeliest first.
        batch_size: texts that are classified together.
    """
    start_tensorflow()
    from tfx_transformer.train.serving import load_classify_text

    function = load_classify_text(model, top_k)
    for batch in batched(iter(text) if text else read_lines(), batch_size):
        found = function(batch)
        rows = zip(found["labels"].numpy(), found["scores"].numpy(), batch, strict=True)
        for labels, scores, own in rows:
            pairs = zip(labels[:top_k], scores, strict=False)
            best = [f"{label.decode()} {score:.3f}" for label, score in pairs]
            print("\t".join([*best, own]), flush=True)


def batched(lines: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lists of at most `size` lines."""
    while batch := list(itertools.islice(lines, size)):
        yield batch


def read_lines() -> Iterator[str]:
    """The lines of standard input."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode().rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"line {number} of standard input is not UTF-8: {error}") from error
