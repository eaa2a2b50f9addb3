"""One served model: batches, limits, deadlines and all kinds of pipelines."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tfx_transformer.convert.marian import load_marian
from tfx_transformer.export import export, load
from tfx_transformer.pipelines import PIPELINES
from tfx_transformer.serving.errors import (
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    Overloaded,
    ServingError,
    TooLarge,
    Unavailable,
)
from tfx_transformer.serving.model import ServedModel
from tfx_transformer.serving.options import ServingOptions

MARIAN = Path(__file__).parents[1] / "fixtures/marian"


def upper(model, *texts, **options):
    return [text.decode() for text in model.predict({"text": texts}, **options)["text"]]


def wait_until(condition):
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.005)


def test_requests_at_the_same_time_share_batches(serve, toy):
    model = serve(max_batch_size=8)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda i: upper(model, f"a{i}"), range(16)))
    assert answers == [[f"A{i}"] for i in range(16)]
    assert len(toy.batches) < 16


def test_a_request_larger_than_a_batch_is_cut_and_joined_in_order(serve, toy):
    model = serve(max_batch_size=4)
    texts = [str(i) * (1 + 13 * i % 300) for i in range(11)]  # all groups of lengths
    outputs = model.predict({"text": texts})
    assert [text.decode() for text in outputs["text"]] == texts
    assert outputs["pieces"].shape == (11, max(map(len, texts)))
    for row, text in zip(outputs["pieces"], texts, strict=True):
        assert b"".join(row).decode() == text
    assert max(len(batch) for batch in toy.batches) <= 4


def test_texts_of_like_length_share_a_batch(serve, toy):
    model = serve(max_batch_size=8)
    model.predict({"text": ["a", "b" * 1000, "c", "d" * 1000]})
    assert sorted(toy.batches) == [[b"a", b"c"], [b"b" * 1000, b"d" * 1000]]


def test_widths_do_not_depend_on_others_in_the_batch(serve, toy):
    model = serve(max_batch_size=2, batch_timeout=5000.0)
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(lambda text: model.predict({"text": [text]}), ["ab", "abcde"]))
    assert len(toy.batches) == 1
    assert [x["pieces"].shape for x in outputs] == [(1, 2), (1, 5)]


def test_token_ids_of_all_widths_are_computed(serve):
    model = serve(max_batch_size=4)
    with ThreadPoolExecutor(8) as pool:
        rows = [np.arange(1, 3 + i)[None] for i in range(8)]
        results = list(pool.map(lambda x: model.predict({"source": x}, "ids"), rows))
    assert [x["sum"].tolist() for x in results] == [[int(row.sum())] for row in rows]
    with pytest.raises(TooLarge, match="at most 40 columns; got 41"):
        model.predict({"source": np.ones((1, 41), int)}, "ids")


def test_a_signature_with_a_scalar_is_computed_alone(serve):
    model = serve(max_batch_size=2)
    texts = ["abc", "def", "ghi"]
    assert upper(model, *texts) == ["ABC", "DEF", "GHI"]
    outputs = model.predict({"text": texts, "max_length": 2}, "limited")
    assert outputs["text"].tolist() == [b"AB", b"DE", b"GH"]


def test_wrong_requests_are_refused(serve, toy):
    model = serve(max_rows=4)
    for inputs, signature, error in (
        ({"text": ["a"]}, "other", NotFound),
        ({"txt": ["a"]}, "serving_default", InvalidRequest),
        ({"text": [1]}, "serving_default", InvalidRequest),
        ({"text": ["a"] * 5}, "serving_default", TooLarge),
    ):
        with pytest.raises(error):
            model.predict(inputs, signature)
    assert not toy.batches and model.waiting == 0


def test_a_request_that_fails_spoils_no_other_of_its_batch(serve, toy):
    model = serve(max_batch_size=4, batch_timeout=200.0)

    def answer(text):
        try:
            return upper(model, text)
        except InvalidRequest as error:
            return str(error)

    with ThreadPoolExecutor(4) as pool:
        good, bad, *others = pool.map(answer, ["a", "bad", "b", "c"])
    assert any(len(batch) == 4 for batch in toy.batches)
    assert [good, *others] == [["A"], ["B"], ["C"]]
    assert "refused the inputs" in bad and "\n" not in bad


def test_a_failure_of_the_model_is_logged(serve, toy, caplog):
    def fail(_):
        raise tf.errors.InternalError(None, None, "out of order\nmore")

    model = serve()
    model._functions["limited"] = fail
    with pytest.raises(ServingError, match="toy failed: out of order"):
        model.predict({"text": ["secret"], "max_length": 3}, "limited")
    assert [record.message for record in caplog.records] == ["toy/1 failed: out of order"]


def test_above_the_limit_requests_are_refused_at_once(serve, toy):
    model = serve(max_waiting=3, max_batch_size=1)
    toy.may_run.clear()
    with ThreadPoolExecutor(3) as pool:
        accepted = [pool.submit(upper, model, "a") for _ in range(3)]
        wait_until(lambda: model.waiting == 3)
        start = time.monotonic()
        with pytest.raises(Overloaded, match="3 waiting requests"):
            upper(model, "b")
        assert time.monotonic() - start < 1
        toy.may_run.set()
        assert [future.result() for future in accepted] == [["A"]] * 3
    assert upper(model, "b") == ["B"]


def test_a_large_request_is_accepted_when_nothing_waits(serve):
    model = serve(max_waiting=2, max_batch_size=1)
    assert upper(model, *"abcd") == list("ABCD")


def test_a_late_answer_is_an_error_at_the_deadline(serve, toy):
    model = serve()
    toy.may_run.clear()
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        upper(model, "a", deadline=start + 0.1)
    assert 0.1 <= time.monotonic() - start < 2
    toy.may_run.set()
    wait_until(lambda: model.waiting == 0)


def test_what_waits_after_its_deadline_is_not_computed(serve, toy, monkeypatch):
    monkeypatch.setattr(ServingOptions, "num_batches", 0)
    model = serve(max_batch_size=1)  # one call at a time
    toy.may_run.clear()
    first = model.submit({"text": ["first"]})
    wait_until(lambda: toy.batches)
    late = model.submit({"text": ["late"]}, deadline=time.monotonic() + 0.05)
    canceled = model.submit({"text": ["canceled"]})
    assert canceled.cancel()
    time.sleep(0.1)
    toy.may_run.set()
    assert first.result()["text"].tolist() == [b"FIRST"]
    with pytest.raises(DeadlineExceeded):
        late.result()
    wait_until(lambda: model.waiting == 0)
    assert toy.batches == [[b"first"]]


def test_close_waits_for_accepted_requests_and_refuses_others(serve, toy):
    model = serve()
    toy.may_run.clear()
    accepted = model.submit({"text": ["a"]})
    closing = threading.Thread(target=model.close)
    closing.start()
    wait_until(lambda: model._admission.is_closing)
    with pytest.raises(Unavailable):
        upper(model, "b")
    assert closing.is_alive() and not accepted.done()
    toy.may_run.set()
    closing.join()
    assert accepted.result()["text"].tolist() == [b"A"]


def test_an_observer_sees_times_and_batch_sizes(serve):
    seen = []
    model = serve(observer=seen.append, max_batch_size=4)
    model.warm_up()
    upper(model, "a", "b", "c")
    (one,) = seen
    assert (one.model, one.version, one.signature, one.rows) == ("toy", 1, "serving_default", 3)
    assert one.batch_size == 3 and one.waiting >= 0 and one.computing >= 0


@pytest.mark.parametrize("form", ["pipeline", "export"])
@pytest.mark.parametrize("kind", PIPELINES)
def test_every_kind_of_pipeline_is_served(kind, form, items, request, tmp_path):
    pipeline = request.getfixturevalue(kind)
    predictor = load(export(pipeline, tmp_path / "out")) if form == "export" else pipeline
    limits = ServingOptions(max_batch_size=2, batch_timeout=0.0)
    model = ServedModel(predictor, kind, limits=limits)
    assert model.kind == kind and model.options.keys() - {"tokenizer"} == pipeline.options().keys()
    if pipeline.columns:
        columns = zip(pipeline.columns, zip(*items[kind], strict=True), strict=True)
        outputs = model.predict({name: list(column) for name, column in columns})
        results = [pipeline.result.unpack(outputs, row) for row in range(len(items[kind]))]
    else:
        results = model.results(items[kind])
    expected = pipeline.results(items[kind])
    for ours, theirs in zip(results, expected, strict=True):
        is_exact = isinstance(theirs.value, str | bytes)
        assert ours.value == (theirs.value if is_exact else pytest.approx(theirs.value, rel=1e-4))
    model.close()


def test_a_ctranslate2_export_is_served(tmp_path):
    pytest.importorskip("ctranslate2")
    marian = load_marian(MARIAN, "greedy", max_length=30)
    folder = export(marian, tmp_path / "out", format="ctranslate2")
    model = ServedModel(load(folder), limits=ServingOptions(max_batch_size=2))
    texts = ["the red cat", "", "a big old dog", "the sea"]
    assert [result.text for result in model.results(texts)] == marian(texts)
    assert model.kind == "translator" and model.options["max_length"] == 30
    model.close()


def test_other_formats_are_refused():
    with pytest.raises(ValueError, match="must be a run, a SavedModel or a CTranslate2 export"):
        ServedModel(object(), "toy")
