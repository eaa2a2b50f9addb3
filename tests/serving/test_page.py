"""The page in a real browser: with fixed answers of the API, and with a real server."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import tfx_transformer.serving

pytestmark = pytest.mark.serving
PAGE = Path(tfx_transformer.serving.__file__).parent / "page"
HOST = "http://page.test/"
POLICY = "default-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
TYPES |= {".svg": "image/svg+xml"}
MODELS = {
    "translator": {"explains": True},
    "classifier": {"explains": True, "resize": "crop", "crop_ratio": 0.5},
    "captioner": {"explains": True},
    "text_classifier": {"explains": False},
    "generator": {"explains": False, "streams": True},
}
TRANSLATION = {
    "text": "붉은 고양이",
    "score": -0.25,
    "n_best": [{"text": "붉은 고양이", "score": -0.25}, {"text": "빨간 고양이", "score": -1.5}],
    "truncated": False,
    "source_pieces": ["▁the", "▁r", "ed", "▁cat", "</s>"],
    "pieces": ["▁붉", "은", "▁고양이", "</s>"],
    "attention": [  # 1 block, 2 heads, 4 × 5
        [
            [[0.1, 0.5, 0.3, 0.1, 0], [0.1, 0.1, 0.6, 0.1, 0.1], [0, 0, 0, 1, 0], [0.2] * 5],
            [[1, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0.2] * 5],
        ]
    ],
}
TRANSLATION["alignment"] = np.mean(TRANSLATION["attention"], axis=(0, 1)).tolist()
CLASSES = [{"label": "cat", "score": 0.75}, {"label": "dog", "score": 0.0625}]
CAPTION = {
    "text": "a cat",
    "score": -1.0,
    "n_best": [{"text": "a cat", "score": -1.0}],
    "pieces": ["▁a", "▁cat", "</s>"],
    "weights": [[[1, 0], [0, 0]], [[0, 0], [0, 1]], [[0, 0], [0, 0]]],
    "is_readable": True,
}
EVENTS = [{"text": "there "}, {"text": "was"}, {"done": True, "text": "there was"}]
ANSWERS = {
    "models": {
        "models": [
            {"name": f"my_{kind}", "kind": kind, "version": 1, "state": "AVAILABLE"} | about
            for kind, about in MODELS.items()
        ]
    },
    "translate": {"translations": [TRANSLATION]},
    "classify": {
        "predictions": [{"classes": CLASSES, "is_readable": True, "rollout": [[0, 0], [0, 1]]}]
    },
    "caption": {"captions": [CAPTION]},
    "generate": "".join(f"data: {json.dumps(event)}\n\n" for event in EVENTS),
}


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """An open page that records its console errors and the addresses of its requests."""

    def __init__(self, browser, **options):
        self.page = browser.new_context(**options).new_page()
        self.errors, self.addresses, self.bodies = [], [], []
        self.page.on("console", lambda message: self.note(message))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.addresses.append(request.url))

    def note(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def answer(self, answers):
        """Serves the page with fixed answers: JSON, text of events, or (status, JSON)."""

        def fulfill(route):
            name = route.request.url.removeprefix(HOST)
            if name in answers:
                self.bodies.append(route.request.post_data_json)
                found = answers[name](route.request) if callable(answers[name]) else answers[name]
                status, content = found if isinstance(found, tuple) else (200, found)
                body = content if isinstance(content, str) else json.dumps(content)
                return route.fulfill(status=status, body=body, headers={"Retry-After": "1"})
            path = PAGE / (name.removeprefix("static/") or "index.html")
            headers = {"Content-Type": TYPES[path.suffix], "Content-Security-Policy": POLICY}
            return route.fulfill(body=path.read_bytes(), headers=headers)

        self.page.route("**/*", fulfill)
        self.page.goto(HOST)
        return self.page


@pytest.fixture
def opened(browser):
    opened = Opened(browser)
    yield opened
    assert not opened.errors
    assert all(address.startswith(HOST) for address in opened.addresses)
    opened.page.context.close()


def only(kind, **answers):
    """The answers of a server with one model."""
    models = [model for model in ANSWERS["models"]["models"] if model["kind"] == kind]
    return ANSWERS | {"models": {"models": models}} | answers


def weights_of(page, part):
    """The --weight of each word of a row."""
    words = page.locator(f"[data-part={part}] .word")
    return words.evaluate_all(
        "words => words.map(word => Number(word.style.getPropertyValue('--weight') || 0))"
    )


def png(height, width, value=0):
    pixels = np.full((height, width, 3), value, "uint8")
    return {"name": "a.png", "mimeType": "image/png", "buffer": tf.io.encode_png(pixels).numpy()}


def colors(page, points):
    """The colors of the picture's canvas at relative points (x, y)."""
    return page.locator("canvas").first.evaluate(
        """(canvas, points) => points.map(([x, y]) => [...canvas.getContext("2d").getImageData(
            Math.floor(x * canvas.width), Math.floor(y * canvas.height), 1, 1).data])""",
        points,
    )


def test_there_is_a_panel_for_each_kind_that_is_served(opened):
    page = opened.answer(ANSWERS)
    page.wait_for_selector("#panel-generator")
    found = page.locator("section").evaluate_all("all => all.map(panel => panel.id)")
    assert found == [f"panel-{kind}" for kind in MODELS]
    assert page.locator("nav a").count() == len(MODELS)


def test_words_light_up_by_the_sum_over_their_subwords(opened):
    page = opened.answer(only("translator"))
    page.fill("textarea", "the red cat")
    page.wait_for_selector(".word")
    assert page.locator("[data-part=result]").inner_text() == "붉은 고양이"
    assert page.locator("[data-part=source] .word").all_inner_texts() == ["the", "red", "cat"]
    page.select_option("[data-part=head]", "1")
    page.hover("[data-part=target] .word >> nth=0")
    # the means of both subwords: 0.1 for "the", 0.75 for "red" and 0.1 for "cat"
    np.testing.assert_allclose(weights_of(page, "source"), np.array([0.1, 0.75, 0.1]) / 0.75)
    assert "75 %" in page.locator("[data-part=partners]").inner_text()
    page.hover("[data-part=source] .word >> nth=2")
    np.testing.assert_allclose(weights_of(page, "target"), [0.1, 1])
    page.select_option("[data-part=head]", "2")
    page.locator("[data-part=target] .word >> nth=0").focus()
    np.testing.assert_allclose(weights_of(page, "source"), [1, 0, 0])
    assert page.locator("td").all_inner_texts() == ["", "100", "", "", "", "100", ""]


def test_the_best_translations_have_their_scores(opened):
    page = opened.answer(only("translator"))
    page.fill("textarea", "the red cat")
    items = page.locator(".n-best li")
    items.first.wait_for()
    assert items.all_inner_texts() == ["붉은 고양이−0.25", "빨간 고양이−1.50"]
    page.fill("textarea", "")
    items.first.wait_for(state="hidden")
    assert page.locator("[data-part=result]").inner_text() == ""
    assert page.locator("[data-part=alignment]").is_hidden()


def test_an_answer_that_comes_too_late_is_not_shown(opened):
    held = []

    def translate(route):
        text = route.request.post_data_json["text"]
        if text == "one":
            return held.append(route)
        body = {"translations": [TRANSLATION | {"text": f"{text}!"}]}
        return route.fulfill(json=body)

    page = opened.answer(only("translator"))
    page.route("**/translate", translate)
    with page.expect_request("**/translate"):
        page.fill("textarea", "one")
    page.fill("textarea", "two")
    page.wait_for_selector("[data-part=result] >> text=two!")
    held[0].fulfill(json={"translations": [TRANSLATION | {"text": "one!"}]})
    page.wait_for_timeout(100)
    assert page.locator("[data-part=result]").inner_text() == "two!"


def test_a_request_waits_until_typing_pauses(opened):
    page = opened.answer(only("translator"))
    page.locator("textarea").press_sequentially("the red cat", delay=20)
    page.wait_for_selector(".word")
    assert [body["text"] for body in opened.bodies if body] == ["the red cat"]


ERRORS = {
    "text: too long": (400, {"error": "text: too long"}),
    "The server is busy. Please try again in a moment.": (429, {"error": "too many requests"}),
    "The server answered 502 Bad Gateway.": (502, "<html>"),
}


@pytest.mark.parametrize("message", ERRORS)
def test_an_error_is_shown_in_words_until_the_next_request(opened, message):
    answers = only("translator", translate=ERRORS[message])
    page = opened.answer(answers)
    page.fill("textarea", "a")
    page.wait_for_selector(".status.error")
    assert page.locator(".status").inner_text() == message
    answers["translate"] = ANSWERS["translate"]
    page.fill("textarea", "b")
    page.wait_for_selector(".word")
    assert page.locator(".status").inner_text() == ""
    opened.errors = [error for error in opened.errors if "Failed to load resource" not in error]


def test_a_server_that_is_gone_is_reported(opened):
    page = opened.answer(only("translator"))
    page.route("**/translate", lambda route: route.abort())
    page.fill("textarea", "a")
    page.wait_for_selector(".status.error")
    assert page.locator(".status").inner_text() == "The server cannot be reached."
    opened.errors = [error for error in opened.errors if "Failed to load resource" not in error]


def test_a_model_that_is_loaded_later_gets_its_panel(opened):
    loading = [{"name": "late", "kind": None, "state": "LOADING"}]
    answers = only("translator", models={"models": loading})
    page = opened.answer(answers)
    page.wait_for_selector("text=Loading late")
    answers["models"] = only("translator")["models"]
    page.wait_for_selector("#panel-translator")
    assert page.locator("#state").is_hidden()


def test_a_server_with_a_token_asks_for_it(opened):
    def models(request):
        is_known = request.headers.get("authorization") == "Bearer secret"
        return only("translator")["models"] if is_known else (401, {"error": "unauthorized"})

    page = opened.answer(only("translator", models=models))
    page.fill("#token", "secret")
    page.click("#access button")
    page.wait_for_selector("#panel-translator")
    assert page.locator("#access").is_hidden()
    opened.errors = [error for error in opened.errors if "Failed to load resource" not in error]


INSIDE, OUTSIDE = (0.66, 0.7), (0.9, 0.9)  # of the central half of a square's side


def test_a_picture_gets_bars_and_an_overlay_on_the_region_that_the_model_saw(opened):
    page = opened.answer(only("classifier"))
    page.set_input_files(".file", png(40, 60, 200))
    page.wait_for_selector(".bars li >> nth=1", state="attached")
    assert page.locator(".name").all_inner_texts() == ["cat", "dog"]
    assert page.locator(".percent").all_inner_texts() == ["75 %", "6.3 %"]
    widths = page.locator(".track").evaluate_all(
        "all => all.map(track => track.firstChild.offsetWidth / track.offsetWidth)"
    )
    np.testing.assert_allclose(widths, [0.75, 0.0625], atol=0.02)
    inside, outside, low = colors(page, [INSIDE, OUTSIDE, (0.4, 0.3)])
    assert outside == low == [200, 200, 200, 255] and inside != outside
    page.locator("input[type=range]").fill("0")
    assert colors(page, [INSIDE]) == [outside]
    assert opened.bodies[-1] == opened.bodies[-1] | {"rollout": True, "model": "my_classifier"}


def test_a_picture_can_be_dropped(opened):
    page = opened.answer(only("classifier"))
    page.wait_for_selector(".drop")
    data = page.evaluate_handle(
        """bytes => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "a.png", {type: "image/png"}));
            return data;
        }""",
        list(png(8, 8)["buffer"]),
    )
    page.dispatch_event(".drop", "drop", {"dataTransfer": data})
    page.wait_for_selector(".bars li", state="attached")
    assert page.locator("canvas").is_visible()


def test_a_file_that_is_no_picture_is_refused_in_words(opened):
    page = opened.answer(only("classifier"))
    file = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"no picture"}
    page.set_input_files(".file", file)
    page.wait_for_selector(".status.error")
    assert "a.txt is not a picture" in page.locator(".status").inner_text()


def test_a_picture_that_the_server_cannot_read_is_reported(opened):
    empty = {"classes": [], "is_readable": False, "rollout": [[0]]}
    page = opened.answer(only("classifier", classify={"predictions": [empty]}))
    page.set_input_files(".file", png(8, 8))
    page.wait_for_selector(".status.error")
    assert page.locator(".status").inner_text() == "The server cannot read this picture."


def test_the_region_of_a_word_of_a_caption_lights_up(opened):
    page = opened.answer(only("captioner"))
    page.set_input_files(".file", png(50, 50, 100))
    page.wait_for_selector(".word")
    assert page.locator(".word").all_inner_texts() == ["a", "cat"]
    corners = [(0.1, 0.1), (0.9, 0.9)]
    assert len({tuple(color) for color in colors(page, corners)}) == 1
    page.hover(".word >> nth=0")
    first, last = colors(page, corners)
    assert first != [100, 100, 100, 255] == last
    page.hover(".word >> nth=1")
    first, last = colors(page, corners)
    assert first == [100, 100, 100, 255] != last


def test_a_text_is_generated_as_a_stream_that_can_be_stopped(opened):
    page = opened.answer(only("generator"))
    page.fill("textarea", "Once")
    page.click("[data-part=start]")
    page.wait_for_selector(".result >> text=there was")
    assert opened.bodies[-1] == {
        "text": "Once",
        "max_length": 64,
        "stream": True,
        "model": "my_generator",
    }
    page.route("**/generate", lambda route: None)  # never answered
    page.click("[data-part=start]")
    page.click("[data-part=stop]")
    page.wait_for_selector("text=Stopped.")
    assert page.locator("[data-part=start]").is_enabled()


def test_a_text_is_classified_while_it_is_typed(opened):
    page = opened.answer(only("text_classifier"))
    page.fill("textarea", "good")
    page.wait_for_selector(".bars li", state="attached")
    assert page.locator(".name").all_inner_texts() == ["cat", "dog"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_horizontal_scrolling(browser, scheme, tmp_path):
    size = {"width": 360, "height": 740}
    opened = Opened(browser, viewport=size, color_scheme=scheme, has_touch=True, is_mobile=True)
    page = opened.answer(ANSWERS)
    for kind in ("translator", "text_classifier", "generator"):
        page.fill(f"#panel-{kind} textarea", "word " * 30 + "w" * 60)
    page.click("[data-part=start]")
    for kind in ("classifier", "captioner"):
        page.set_input_files(f"#panel-{kind} .file", png(30, 400))
    page.tap("#panel-translator .word >> nth=0")
    page.wait_for_selector("#panel-captioner .word")
    page.screenshot(path=tmp_path / "phone.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    assert sum(weights_of(page, "target")) > 0
    assert not opened.errors
    page.context.close()
