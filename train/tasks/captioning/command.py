"""The command `caption`. It imports TensorFlow only when it runs."""

from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.options import NO_OPTIONS, ImageFiles, Model, Options, given
from tfx_transformer.train.tasks.lines import answer_images, check_files


def caption(
    model: Model,
    files: ImageFiles,
    batch_size: int = 32,
    options: Options = NO_OPTIONS,
) -> None:
    """Describe images: one line for each file, with its caption.

    Args:
        model: a run folder or an export.
        files: JPEG, PNG, GIF, BMP, WebP, TIFF or PPM.
        batch_size: images that are described together.
        options: of the pipeline.
    """
    check_exists(model=model)
    check_files(files)
    start_tensorflow()
    from tfx_transformer.train.run_folder import load_pipeline

    def describe(result) -> str | None:
        return result.text if result.is_readable else None

    captioner = load_pipeline(model, "captioning", **given(options))
    answer_images(files, captioner, batch_size, describe)


COMMAND = caption
