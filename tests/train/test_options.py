"""Options are read from source code; these tests compare them with the imported classes."""

import dataclasses
import inspect
import subprocess
import sys

import pytest

from tfx_transformer.decoding import DECODERS
from tfx_transformer.models import MODELS
from tfx_transformer.train.options import (
    ALL_DECODER_OPTIONS,
    DecodingOptions,
    PipelineOptions,
    decoder_options,
    decoder_spec,
    given,
    model_options,
)

DICTS = {"initializer", "options"}  # arguments that may only take a dict


@pytest.mark.parametrize("name", MODELS)
def test_a_model_s_options_are_its_constructor_s(name):
    parameters = inspect.signature(MODELS[name]).parameters.values()
    expected = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
    found = model_options(name)
    assert set(found) <= expected and expected - set(found) <= DICTS
    assert all(option.help for option in found.values())


@pytest.mark.parametrize("kind", DECODERS)
def test_a_decoder_s_options_are_its_fields(kind):
    expected = {field.name for field in dataclasses.fields(DECODERS[kind])}
    assert set(decoder_options(kind)) == expected
    assert all(option.help for option in decoder_options(kind).values())


def test_decoding_options_have_a_field_for_every_option():
    names = {field.name for field in dataclasses.fields(DecodingOptions)}
    assert names == {"kind", *ALL_DECODER_OPTIONS}
    assert {"min_length", "no_repeat_ngram", "coverage_penalty", "top_p"} <= names


def test_an_unknown_model_lists_the_known():
    with pytest.raises(ValueError, match=f"unknown model 'flashy'; known: {', '.join(MODELS)}"):
        model_options("flashy")


def test_reading_options_imports_neither_keras_nor_tensorflow():
    code = (
        "import sys; sys.argv[0] = 'tfx-transformer'\n"
        "from tfx_transformer.train import cli\n"
        "print([name for name in ('keras', 'keras_hub', 'tensorflow') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr


def test_only_what_is_set_is_given():
    assert given(PipelineOptions()) == {}
    assert given(PipelineOptions(width=3, jit_compile=True)) == {"width": 3, "jit_compile": True}


def test_every_kind_makes_a_decoder():
    for kind in DECODERS:
        DECODERS.make(decoder_spec(DecodingOptions(kind=kind)))


def test_options_that_are_not_given_are_the_recipe_s():
    own = DecodingOptions(kind="beam", width=7, length_penalty=0.1)
    spec = {"kind": "beam", "width": 7, "length_penalty": 0.1}
    assert decoder_spec(own) == spec
    assert decoder_spec(own, width=2) == spec | {"width": 2}
    assert decoder_spec(own, kind="sample", top_p=0.9) == {"kind": "sample", "top_p": 0.9}
    assert decoder_spec(own, kind="greedy") == {"kind": "greedy"}


def test_a_beam_is_at_least_as_wide_as_the_number_of_results():
    assert decoder_spec(DecodingOptions(kind="beam"), n_best=6)["width"] == 6
    assert decoder_spec(DecodingOptions(kind="beam", width=8), n_best=6)["width"] == 8


def test_an_option_that_the_decoder_does_not_have_is_refused_by_name():
    with pytest.raises(ValueError, match="the decoder greedy has no option width; got width=3"):
        decoder_spec(DecodingOptions(kind="beam"), kind="greedy", width=3)
