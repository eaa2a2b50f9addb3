"""The command `draw`. It imports TensorFlow only when it runs."""

from typing import Annotated

import tyro

from tfx_transformer.checks import check_positive
from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.options import Model, RunDecodingOptions, given

Text = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TEXT")]
Decoding = Annotated[RunDecodingOptions, tyro.conf.arg(name="")]


def draw(
    model: Model,
    text: Text,
    count: int | None = None,
    output: str = "drawn.png",
    options: Decoding = RunDecodingOptions(),  # noqa: B008
) -> None:
    """Draw images of a text: a sheet of them, the most likely first, and their log-probabilities.

    Args:
        model: a run folder, or an export, whose decoder is fixed.
        text: what to draw.
        count: number of images; as in the recipe or the export if it is not given.
        output: the file of the sheet: .png, .svg or .pdf.
        options: of decoding.
    """
    check_exists(model=model)
    changes = given(options)
    if count is not None:
        check_positive(count=count)
        changes["n_best"] = count
    start_tensorflow()
    from tfx_transformer.train.run_folder import load_pipeline
    from tfx_transformer.train.tasks.image_generation.plots import plot_sheet
    from tfx_transformer.train.tasks.lines import warn_truncated

    (result,) = load_pipeline(model, "image_generation", **changes).results([text])
    images = result.n_best[:count]
    warn_truncated(result.truncated, "the model is trained for texts of --data.max-length tokens")
    plot_sheet(images, output, text)
    for i, (_, score) in enumerate(images, 1):
        print(f"{i}\t{score:.2f}")
    print(f"sheet: {output}")


COMMAND = draw
