"""The page in a real browser, with a real server and small models."""

import os
import socket
import subprocess
import sys
import time

import httpx
import numpy as np
import pytest

from tfx_transformer.export import export
from tfx_transformer.pipelines import PIPELINES

pytestmark = pytest.mark.serving
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def address(request, tmp_path_factory):
    """The address of a server with a model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    for kind in PIPELINES:
        export(request.getfixturevalue(kind), folder / kind)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tfx_transformer.train.cli", "serve"]
    options = ["--port", str(port), "--grpc-port", "0", "--max-batch-size", "2"]
    process = subprocess.Popen([*command, *(str(folder / kind) for kind in PIPELINES), *options])
    address, end = f"http://127.0.0.1:{port}/", time.monotonic() + 300
    try:
        while not is_ready(address):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        assert process.wait(60) == 0


def is_ready(address):
    try:
        return httpx.get(f"{address}readyz").status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture
def keep(request, tmp_path):
    """Keeps a screenshot; in the folder SCREENSHOTS, if that is set."""
    folder = os.environ.get("SCREENSHOTS", tmp_path)
    return lambda opened, name: opened.page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def test_a_typed_sentence_is_translated_and_aligned(opened, address, translator, keep):
    page = opened.visit(address)
    page.locator("#panel-translator textarea").press_sequentially("blue dog and red cat", delay=20)
    (expected,) = translator.results(["blue dog and red cat"])
    page.wait_for_selector("#panel-translator .word")
    assert page.locator("#panel-translator .result").inner_text() == expected.text
    best = page.locator("#panel-translator .n-best li").all_inner_texts()
    assert [item.split("−")[0] for item in best] == [text for text, _ in expected.n_best]
    words = page.locator("#panel-translator [data-part=source] .word").all_inner_texts()
    assert words == ["blue", "dog", "and", "red", "cat"]
    page.hover("#panel-translator [data-part=target] .word >> nth=0")
    mean = opened.weights("source")
    assert max(mean) == 1 and len(mean) == 5
    keep(opened, "translation")
    blocks, heads = (page.locator(f"[data-part={x}] option").count() for x in ("block", "head"))
    decoder = translator.model.decoder
    assert (blocks, heads) == (1 + len(decoder), 1 + translator.model.num_heads)
    page.select_option("[data-part=block]", "1")
    page.select_option("[data-part=head]", "2")
    page.hover("#panel-translator [data-part=target] .word >> nth=0")
    assert not np.allclose(opened.weights("source"), mean, atol=0.01)


def test_a_picture_gets_its_classes_and_the_rollout(opened, address, classifier, items, keep):
    page = opened.visit(address)
    file = {"name": "a.png", "mimeType": "image/png", "buffer": items["classifier"][0]}
    page.set_input_files("#panel-classifier .file", file)
    page.wait_for_selector("#panel-classifier .opacity")
    expected = list(classifier(items["classifier"][0]))
    assert page.locator("#panel-classifier .name").all_inner_texts() == expected
    points = [(x, y) for x in np.linspace(0.2, 0.8, 5) for y in np.linspace(0.2, 0.8, 5)]
    lit = opened.colors(*points)
    keep(opened, "picture")
    page.locator("#panel-classifier input[type=range]").fill("0")
    assert opened.colors(*points) != lit


def test_a_picture_can_be_taken_by_the_camera(opened, address):
    page = opened.visit(address)
    page.click("#panel-classifier .camera")
    page.wait_for_function("() => document.querySelector('video').videoWidth > 0")
    page.click("#panel-classifier .snap")
    page.wait_for_selector("#panel-classifier .opacity")
    assert page.locator("#panel-classifier .name").count() == 3
    assert page.locator("dialog").first.is_hidden()


def test_a_caption_and_a_text_are_generated(opened, address, captioner, items):
    page = opened.visit(address)
    file = {"name": "a.png", "mimeType": "image/png", "buffer": items["captioner"][0]}
    page.set_input_files("#panel-captioner .file", file)
    page.wait_for_selector("#panel-captioner .word")
    words = page.locator("#panel-captioner .word").all_inner_texts()
    assert " ".join(words) == captioner(items["captioner"][0])
    page.fill("#panel-generator textarea", "the old")
    page.fill("[data-part=length]", "5")
    page.click("[data-part=start]")
    page.wait_for_selector("[data-part=start]:enabled")
    assert page.locator("#panel-generator .result").inner_text().strip()
    assert page.locator("#panel-generator .status").inner_text() == ""


def test_a_refused_text_is_explained(opened, address):
    page = opened.visit(address)
    page.fill("#panel-translator textarea", "x" * 10_001)
    page.wait_for_selector("#panel-translator .status.error")
    assert "at most 10000 characters" in page.locator("#panel-translator .status").inner_text()


def test_the_page_fits_on_a_phone(open_page, address, items, keep):
    opened = open_page(**PHONE)
    page = opened.visit(address)
    page.fill("#panel-translator textarea", "blue dog and red cat and old big dog")
    for kind in ("classifier", "captioner"):
        file = {"name": "a.jpg", "mimeType": "image/jpeg", "buffer": items[kind][2]}
        page.set_input_files(f"#panel-{kind} .file", file)
    for kind in ("translator", "captioner"):
        page.wait_for_selector(f"#panel-{kind} .word")
    page.tap("#panel-translator .word >> nth=1")
    keep(opened, "phone")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["viewport"]["width"]
