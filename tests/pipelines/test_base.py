"""Calls on one item and on lists, for a predictor that only counts and for every pipeline."""

import dataclasses
import inspect
import json

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.data.images.options import ImageOptions
from tfx_transformer.pipelines import PIPELINES
from tfx_transformer.pipelines.base import Pipeline, Prediction, Predictor
from tfx_transformer.pipelines.translator import Translation

TEXTS = ["c c c", "a", "d d d d", "b b", "e e e e e"]
# in export.json; the options of images are, each under its name
NOT_STORED = {
    *("model", "image_model"),
    *("tokenizer", "source_tokenizer", "target_tokenizer", "image_options"),
}


HOSTILE = [
    *("\0", "a\0b", " \t\n ", "\ud800", "\udfff\ufffd", "\u202e\u200b\ufeff", "x" * 100_000),
    *("y " * 50_000, "🦊" * 5_000, "e" + "\u0301" * 2_000, b"\xff\xfe\x80", b"\xed\xa0\x80 a"),
]


class UpperCase(Predictor):
    """Translates to upper case; the subwords are the words, each aligned with itself."""

    kind, result = "translator", Translation

    def __init__(self):
        self.calls = []  # batch sizes

    def predict(self, texts):
        self.calls.append(len(texts))
        words = tf.strings.split(tf.constant(texts)).to_tensor("")
        upper = tf.strings.upper(tf.constant(texts))
        return {
            "text": upper,
            "score": tf.ones(len(texts)),
            "n_best": tf.stack([upper, upper], axis=1),
            "n_best_score": tf.tile([[1.0, 0.5]], [len(texts), 1]),
            "pieces": words,
            "source_pieces": words,
            "alignment": tf.eye(tf.shape(words)[1], batch_shape=[len(texts)]),
        }


@pytest.fixture
def predictor():
    return UpperCase()


def test_the_order_is_kept_and_items_of_similar_length_share_a_batch(predictor):
    results = list(predictor.results(TEXTS, batch_size=2))
    assert [result.text for result in results] == [text.upper() for text in TEXTS]
    assert predictor.calls == [2, 2, 1]
    assert [len(result.pieces) for result in results] == [3, 1, 4, 2, 5]  # no padding
    assert results[3].source_pieces == ["b", "b"]
    np.testing.assert_array_equal(results[3].alignment, np.eye(2))
    assert results[0].n_best == [("C C C", 1.0), ("C C C", 0.5)] and results[0].score == 1


def test_one_item_gives_one_result_and_any_iterable_a_list(predictor):
    assert predictor("a b") == predictor(b"a b") == "A B"
    assert predictor(["a b"]) == predictor(iter(["a b"])) == predictor(np.array(["a b"])) == ["A B"]


def test_no_items_give_no_results(predictor):
    assert predictor.results([]) == predictor([]) == [] and predictor.calls == []


def test_the_batch_size_must_be_positive(predictor):
    with pytest.raises(ValueError, match="batch_size must be a whole number above zero"):
        predictor.results(TEXTS, batch_size=0)


def test_a_prediction_maps_labels_to_probabilities():
    outputs = {
        "labels": np.array([[b"a", "개".encode()]] * 2, object),
        "scores": np.array([[0.75, 0.25]] * 2, "float32"),
        "is_readable": np.array([True, False]),
    }
    assert Prediction.unpack(outputs, 0).value == {"a": 0.75, "개": 0.25}
    assert Prediction.unpack(outputs, 1).value == {}
    del outputs["is_readable"]
    assert Prediction.unpack(outputs, 1).classes == [("a", 0.75), ("개", 0.25)]


def test_a_pipeline_must_define_signatures():
    with pytest.raises(TypeError, match="signatures"):
        type("Incomplete", (Pipeline,), {})()


@pytest.mark.parametrize("kind", PIPELINES)
class TestEveryPipeline:
    @pytest.fixture
    def pipeline(self, kind, request):
        return request.getfixturevalue(kind)

    def test_one_item_gives_one_result_and_a_list_a_list(self, kind, pipeline, items):
        results = pipeline(items[kind], batch_size=2)
        for item, result in zip(items[kind], results, strict=True):
            alone = pipeline(item)
            kinds = {"classifier": dict, "text_classifier": dict, "text_to_image": bytes}
            assert type(alone) is kinds.get(kind, str)
            assert alone == (
                pytest.approx(result, abs=1e-5) if isinstance(result, dict) else result
            )
            assert pipeline([item]) == [alone]
        assert results[0] and pipeline([]) == []

    def test_results_have_the_class_of_the_pipeline(self, kind, pipeline, items):
        results = list(pipeline.results(items[kind]))
        assert {type(result) for result in results} == {pipeline.result}
        assert [result.value for result in results] == pipeline(items[kind])

    def test_every_signature_answers_an_empty_batch(self, kind, pipeline):
        for function in pipeline.signatures().values():
            specs = [x for x in function.input_signature if x.name != "max_length"]
            inputs = [tf.zeros([size or 0 for size in x.shape], x.dtype) for x in specs]
            inputs += [tf.constant(3)] if len(specs) < len(function.input_signature) else []
            assert {len(value) for value in function(*inputs).values()} == {0}

    def test_a_text_that_is_cut_is_flagged(self, kind, pipeline):
        if "text" not in pipeline.predict.input_signature[0].name:
            pytest.skip("reads images")
        # tokens that fit
        size = {"translator": 11, "text_classifier": 10, "generator": 12, "text_to_image": 10}[kind]
        name = "source_tokenizer" if kind == "translator" else "tokenizer"
        texts = ["a" * n for n in range(1, 16)]
        lengths = [len(ids) for ids in getattr(pipeline, name).encode_list(texts)]
        assert {size, size + 1} <= set(lengths)
        results = list(pipeline.results(texts))
        assert [result.truncated for result in results] == [n > size for n in lengths]
        outputs = pipeline.predict(tf.constant(texts))
        assert outputs["truncated"].numpy().tolist() == [n > size for n in lengths]

    def test_hostile_texts_are_answered(self, kind, pipeline):
        if "text" not in pipeline.predict.input_signature[0].name:
            pytest.skip("reads images")
        found = pipeline(HOSTILE, batch_size=3)
        assert len(found) == len(HOSTILE)
        assert pipeline("re\ud800d cat\udcff") == pipeline("red cat")  # lone surrogates
        for text in found if kind in ("generator", "translator") else []:
            assert "\ufffd" not in text
            text.encode()

    def test_it_describes_itself_for_export(self, kind, pipeline):
        assert pipeline.kind == kind and PIPELINES[kind].__module__.endswith(f".{kind}")
        assert pipeline.signatures()["serving_default"] is pipeline.predict
        stored = json.loads(json.dumps(pipeline.options()))
        assert set(stored) >= set(inspect.signature(type(pipeline)).parameters) - NOT_STORED
        if kind in ("captioner", "classifier"):
            assert set(stored) >= {field.name for field in dataclasses.fields(ImageOptions)}
        assert bool(pipeline.resources()) == (kind != "classifier")
