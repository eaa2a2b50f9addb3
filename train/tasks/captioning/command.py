"""The command `caption`. It imports TensorFlow only when it runs."""

import tyro

from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.options import NO_OPTIONS, Options, given
from tfx_transformer.train.tasks.lines import read_image_files


def caption(
    model: tyro.conf.Positional[str],
    files: tyro.conf.Positional[tuple[str, ...]],
    batch_size: int = 32,
    options: Options = NO_OPTIONS,
) -> None:
    """Describe images: one line for each file, with its caption.

    Args:
        model: a run folder or an export.
        files: JPEG, PNG, GIF or BMP.
        batch_size: images that are described together.
        options: of the pipeline.
    """
    check_exists(model=model)
    start_tensorflow()
    from tfx_transformer.train.loading import load_pipeline

    contents = read_image_files(files)
    captioner = load_pipeline(model, "captioning", **given(options))
    for file, result in zip(files, captioner.results(contents, batch_size), strict=True):
        print(f"{file}\t{result.text if result.is_readable else 'unreadable'}")


COMMAND = caption
