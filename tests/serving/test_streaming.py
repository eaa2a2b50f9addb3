"""Generators stream their text, from a pipeline and from an export."""

import pytest

from tfx_transformer.export import export, load
from tfx_transformer.pipelines import Generator
from tfx_transformer.serving.errors import InvalidRequest, Overloaded
from tfx_transformer.serving.model import ServedModel
from tfx_transformer.serving.options import ServingOptions


@pytest.fixture(scope="module")
def exported(generator, tmp_path_factory):
    return load(export(generator, tmp_path_factory.mktemp("generator") / "out"))


def served(predictor, **options):
    return ServedModel(predictor, "writer", limits=ServingOptions(max_batch_size=2, **options))


@pytest.mark.parametrize("form", ["pipeline", "export"])
@pytest.mark.parametrize("max_length", [1, 5, 8])
def test_the_parts_are_the_text_of_the_generator(form, max_length, generator, exported):
    model = served(generator if form == "pipeline" else exported)
    expected = generator.predict_limited(["the old"], max_length)["text"].numpy()[0].decode()
    assert "".join(model.stream("the old", max_length)) == expected
    assert model.waiting == 0


def test_an_export_continues_its_own_text(generator, exported):
    """After the first tokens, by the text so far as the prompt."""
    whole = "".join(served(exported).stream("the", 11))
    first = generator.predict_limited(["the"], 8)["text"].numpy()[0].decode()
    then = generator.predict_limited(["the" + first], 3)["text"].numpy()[0].decode()
    assert whole == first + then and then


def test_a_beam_is_streamed_some_tokens_at_a_time(language_model):
    beam = Generator(*language_model, {"kind": "beam", "width": 2}, 8)
    expected = beam.predict_limited(["the"], 5)["text"].numpy()[0].decode()
    assert "".join(served(beam).stream("the", 5)) == expected


def test_sampling_without_a_seed_is_streamed(language_model):
    sampler = Generator(*language_model, {"kind": "sample"}, 8)
    assert any("".join(served(sampler).stream("the", 8)) for _ in range(3))


def test_the_first_stream_after_the_warm_up_traces_nothing(generator):
    model = served(generator)
    model.warm_up()
    count = model.text_stream.advance.experimental_get_tracing_count
    assert count() == 1
    list(model.stream("the old", 3))
    assert count() == 1


def test_a_stream_counts_as_a_request_until_it_ends_or_is_dropped(generator):
    model = served(generator, max_waiting=1)
    stream = model.stream("the old", 8)
    assert model.waiting == 1
    with pytest.raises(Overloaded):
        model.stream("the old", 8)
    del stream
    assert model.waiting == 0
    list(model.stream("the old", 2))
    assert model.waiting == 0


def test_wrong_requests_are_refused(serve, generator):
    for model, arguments, message in (
        (serve(), ("a", 3), "toy is a translator; only generators stream text"),
        (served(generator), ("a", 0), "max_length must lie in 1 … 10000; got 0"),
        (served(generator), (1, 3), "text must be strings; got int"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            model.stream(*arguments)
