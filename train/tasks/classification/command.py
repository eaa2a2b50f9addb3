"""The command `classify`. It imports TensorFlow only when it runs."""

from tfx_transformer.files import check_exists
from tfx_transformer.runtime import start_tensorflow
from tfx_transformer.train.options import ImageFiles, Model
from tfx_transformer.train.tasks.lines import answer_images, check_files


def classify(
    model: Model,
    files: ImageFiles,
    top_k: int = 1,
    batch_size: int = 32,
) -> None:
    """Classify images: one line for each file, with its class and probability.

    Args:
        model: a run folder or an export.
        files: JPEG, PNG, GIF, BMP, WebP, TIFF or PPM.
        top_k: number of classes to print for each image, the most likely first.
        batch_size: images that are classified together.
    """
    check_exists(model=model)
    check_files(files)
    start_tensorflow()
    from tfx_transformer.train.run_folder import load_pipeline

    def answer(result) -> str | None:
        best = (f"{label} {score:.3f}" for label, score in result.classes[:top_k])
        return "\t".join(best) or None

    classifier = load_pipeline(model, "classification", top_k=top_k)
    answer_images(files, classifier, batch_size, answer)


COMMAND = classify
