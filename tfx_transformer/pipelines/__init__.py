"""Pipelines: a model with its pre- and post-processing as one callable, ready for export."""

from tfx_transformer.pipelines.captioner import Captioner
from tfx_transformer.pipelines.classifier import Classifier
from tfx_transformer.pipelines.generator import Generator
from tfx_transformer.pipelines.question_answerer import QuestionAnswerer
from tfx_transformer.pipelines.text_classifier import TextClassifier
from tfx_transformer.pipelines.text_to_image import TextToImage
from tfx_transformer.pipelines.translator import Translator
from tfx_transformer.registry import Registry

PIPELINES = Registry(
    "pipeline",
    {
        kind.kind: kind
        for kind in (
            Captioner,
            Classifier,
            Generator,
            QuestionAnswerer,
            TextClassifier,
            TextToImage,
            Translator,
        )
    },
)

__all__ = [
    "PIPELINES",
    "Captioner",
    "Classifier",
    "Generator",
    "QuestionAnswerer",
    "TextClassifier",
    "TextToImage",
    "Translator",
]
