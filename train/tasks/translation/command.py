"""The command `translate`. It imports TensorFlow only when it runs."""

from functools import partial

from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.options import NO_OPTIONS, Model, Options, Texts, given
from tfx_transformer.train.tasks.batch_files import NO_FILES, Files, LineWork, answer_files
from tfx_transformer.train.tasks.lines import one_line, read_chunks, warn_truncated

ADVICE = "--max-length sets the length in tokens"


def translate(
    model: Model,
    text: Texts,
    alignment: bool = False,
    batch_size: int = 64,
    files: Files = NO_FILES,
    options: Options = NO_OPTIONS,
) -> None:
    """Translate sentences, files, or the lines of standard input, in their order.

    Args:
        model: a run folder, an export, or a Marian model of Hugging Face (hf:OWNER/NAME).
        text: sentences; without any, and without input, standard input is read.
        alignment: show the attention from each target word to the source words.
        batch_size: sentences that are translated together.
        files: instead of sentences.
        options: of the pipeline. With n_best above 1, that many translations with their scores.
    """
    check_exists(model=model)
    show = partial(show_best, options.n_best or 1)
    if files.are_given(text=text, alignment=alignment):
        work = LineWork(model, "translation", given(options), show, batch_size)
        warn_truncated(answer_files(files, work), ADVICE)
        return
    start_tensorflow()
    from tfx_transformer.train.run_folder import load_pipeline

    translator = load_pipeline(model, "translation", **given(options))
    truncated, chunks = 0, [list(text)] if text else read_chunks(16 * batch_size)
    answer = partial(translator.results, batch_size=batch_size, explain=alignment)
    for result in (result for chunk in chunks for result in answer(chunk)):
        truncated += result.truncated
        print(show(result), flush=True)
        if alignment:
            from tfx_transformer.visualization.attention import show_attention  # and matplotlib

            print(show_attention(result.alignment, result.pieces, result.source_pieces), flush=True)
    warn_truncated(truncated, ADVICE)


def show_best(n_best: int, result, source: str = "") -> str:
    """The translation; or of several a line for each, with its score."""
    if n_best == 1:
        return one_line(result.text)
    return "\n".join(f"{score:.4f}\t{one_line(text)}" for text, score in result.n_best[:n_best])


COMMAND = translate
