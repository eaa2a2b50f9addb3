"""The command `translate`. It imports TensorFlow only when it runs."""

import tyro

from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.options import NO_OPTIONS, Options, given
from tfx_transformer.train.tasks.lines import read_chunks, warn_truncated


def translate(
    model: tyro.conf.Positional[str],
    text: tyro.conf.Positional[tuple[str, ...]],
    alignment: bool = False,
    batch_size: int = 64,
    options: Options = NO_OPTIONS,
) -> None:
    """Translate sentences, or the lines of standard input, in their order.

    Args:
        model: a run folder, an export, or a Marian model of Hugging Face (hf:OWNER/NAME).
        text: sentences; without any, standard input is read.
        alignment: show the attention from each target word to the source words.
        batch_size: sentences that are translated together.
        options: of the pipeline. With n_best above 1, that many translations with their scores.
    """
    check_exists(model=model)
    start_tensorflow()
    from tfx_transformer.train.loading import load_pipeline
    from tfx_transformer.visualization.attention import show_attention

    n_best = options.n_best or 1
    translator = load_pipeline(model, "translation", **given(options))
    truncated, chunks = 0, [list(text)] if text else read_chunks(16 * batch_size)
    for result in (x for chunk in chunks for x in translator.results(chunk, batch_size)):
        truncated += result.truncated
        if n_best == 1:
            print(result.text, flush=True)
        for candidate, score in result.n_best[:n_best] if n_best > 1 else ():
            print(f"{score:.4f}\t{candidate}", flush=True)
        if alignment:
            print(show_attention(result.alignment, result.pieces, result.source_pieces), flush=True)
    warn_truncated(truncated, "--max-length sets the length in tokens")


COMMAND = translate
