"""Generated text as a stream: token by token, or from an export some tokens at a time."""

from collections.abc import Iterator

import numpy as np

from tfx_transformer.data.text.tokenizer import END
from tfx_transformer.pipelines import Generator
from tfx_transformer.pipelines.decode import decoder_options
from tfx_transformer.pipelines.streaming import TextStream

CHUNK = 8  # tokens between two parts of an export's text


def stream_text(model, text: str, max_length: int) -> Iterator[str]:
    """The parts of a continuation of at most `max_length` tokens, by a `ServedModel`."""
    stream = token_stream(model)
    return stream(text, max_length) if stream else chunks(model, text, max_length)


def token_stream(model) -> TextStream | None:
    """The stream of a pipeline in memory, made at the first call; None for beams and exports."""
    if not isinstance(model.predictor, Generator):
        return None
    if not hasattr(model, "text_stream"):
        generator = model.predictor
        options = decoder_options(generator.decoder)
        model.text_stream = (
            TextStream(generator.model, generator.tokenizer, options)
            if options["kind"] in ("greedy", "sample")
            else None
        )
    return model.text_stream


def chunks(model, text: str, max_length: int) -> Iterator[str]:
    """Some tokens at a time: the text so far is the next prompt.

    A character whose bytes are not complete is generated again with the next tokens.
    """
    while max_length > 0:
        count = min(CHUNK, max_length)
        length = np.array(count, np.int32)
        arrays = {"text": np.array([text.encode()], object), "max_length": length}
        outputs = model.call(arrays, "limited")
        max_length -= count
        part = outputs["text"][0].decode(errors="replace")
        is_end = END in outputs["tokens"][0]
        part = part if is_end else part.rstrip("\ufffd")
        if part:
            yield part
        if is_end:
            return
        text += part
