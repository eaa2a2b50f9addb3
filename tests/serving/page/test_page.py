"""The page in a real browser, with fixed answers of the API."""

import base64
import json

import numpy as np
import pytest

from .conftest import png

pytestmark = pytest.mark.serving
MODELS = {
    "translator": {"explains": True},
    "classifier": {"explains": True, "resize": "crop", "crop_ratio": 0.5},
    "captioner": {"explains": True},
    "text_classifier": {"explains": False},
    "generator": {"explains": False, "streams": True},
    "text_to_image": {"explains": False, "count": 3},
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
    "draw": lambda request: {"drawings": [draw_gray(request.post_data_json)]},
    "generate": "".join(f"data: {json.dumps(event)}\n\n" for event in EVENTS),
}


def draw_gray(request):
    """Gray images, the first one dark."""
    files = [png(8, 8, 50 * i) for i in range(1, 1 + request["count"])]
    images = [{"image": base64.b64encode(file).decode(), "score": -2.54} for file in files]
    return {"images": images, "truncated": "long" in request["text"]}


def only(kind, **answers):
    """The answers of a server with one model."""
    models = [dict(model) for model in ANSWERS["models"]["models"] if model["kind"] == kind]
    return ANSWERS | {"models": {"models": models}} | answers


def test_there_is_a_panel_for_each_kind_that_is_served(opened):
    page = opened.answer(ANSWERS)
    page.wait_for_selector("#panel-text_to_image")
    found = page.locator("section").evaluate_all("all => all.map(panel => panel.id)")
    assert found == [f"panel-{kind}" for kind in MODELS]
    assert page.locator("nav a").count() == len(MODELS)


@pytest.mark.parametrize("given, asked", [({}, 5), ({"n_best": 2}, 2), ({"n_best": 9}, 5)])
def test_no_more_translations_are_asked_for_than_the_model_has(given, asked, opened):
    answers = only("translator")
    answers["models"]["models"][0] |= given
    page = opened.answer(answers)
    page.fill("textarea", "the red cat")
    page.wait_for_selector(".word")
    assert opened.bodies[-1]["n_best"] == asked


def test_words_light_up_by_the_sum_over_their_subwords(opened):
    page = opened.answer(only("translator"))
    page.fill("textarea", "the red cat")
    page.wait_for_selector(".word")
    assert page.locator("[data-part=result]").inner_text() == "붉은 고양이"
    assert page.locator("[data-part=source] .word").all_inner_texts() == ["the", "red", "cat"]
    page.select_option("[data-part=head]", "1")
    page.hover("[data-part=target] .word >> nth=0")
    # the means of both subwords: 0.1 for "the", 0.75 for "red" and 0.1 for "cat"
    np.testing.assert_allclose(opened.weights("source"), np.array([0.1, 0.75, 0.1]) / 0.75)
    assert "75 %" in page.locator("[data-part=partners]").inner_text()
    page.hover("[data-part=source] .word >> nth=2")
    np.testing.assert_allclose(opened.weights("target"), [0.1, 1])
    page.select_option("[data-part=head]", "2")
    page.locator("[data-part=target] .word >> nth=0").focus()
    np.testing.assert_allclose(opened.weights("source"), [1, 0, 0])
    assert page.locator("td").all_inner_texts() == ["", "100", "", "", "", "100", ""]


def test_rare_characters_and_scripts_without_spaces_have_words_too(opened):
    pieces = ["▁", "<0xE2>", "<0x82>", "<0xAC>", "▁5", "日本", "語", "</s>"]
    weights = [[[[1.0] * len(pieces)] * 4]]
    found = TRANSLATION | {"source_pieces": pieces, "attention": weights}
    page = opened.answer(only("translator", translate={"translations": [found]}))
    page.fill("textarea", "€ 5日本語")
    page.wait_for_selector(".word")
    assert page.locator("[data-part=source] .word").all_inner_texts() == ["€", "5", "日本", "語"]


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


def test_a_server_that_is_gone_is_reported(opened):
    page = opened.answer(only("translator"))
    page.route("**/translate", lambda route: route.abort())
    page.fill("textarea", "a")
    page.wait_for_selector(".status.error")
    assert page.locator(".status").inner_text() == "The server cannot be reached."


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


INSIDE, OUTSIDE = (0.66, 0.7), (0.9, 0.9)  # of the central half of a square's side


def test_a_picture_gets_bars_and_an_overlay_on_the_region_that_the_model_saw(opened):
    page = opened.answer(only("classifier"))
    opened.choose(40, 60, 200)
    page.wait_for_selector(".bars li >> nth=1", state="attached")
    assert page.locator(".name").all_inner_texts() == ["cat", "dog"]
    assert page.locator(".percent").all_inner_texts() == ["75 %", "6.3 %"]
    widths = page.locator(".track").evaluate_all(
        "all => all.map(track => track.firstChild.offsetWidth / track.offsetWidth)"
    )
    np.testing.assert_allclose(widths, [0.75, 0.0625], atol=0.02)
    inside, outside, low = opened.colors(INSIDE, OUTSIDE, (0.4, 0.3))
    assert outside == low == [200, 200, 200, 255] and inside != outside
    page.locator("input[type=range]").fill("0")
    assert opened.colors(INSIDE) == [outside]
    assert opened.bodies[-1] == opened.bodies[-1] | {"rollout": True, "model": "my_classifier"}


# which of three points lie in the right half of the region, for a picture of 60 × 40
POINTS = [(0.6, 0.5), (0.72, 0.5), (0.6, 0.17)]
REGIONS = {"crop": [True, False, False], "squash": [True, True, False], "pad": [True, True, True]}


@pytest.mark.parametrize("resize", REGIONS)
def test_the_overlay_lies_on_the_region_of_each_way_to_resize(opened, resize):
    answers = only("classifier")
    answers["models"]["models"][0] |= {"resize": resize}
    found = ANSWERS["classify"]["predictions"][0] | {"rollout": [[0, 0, 1, 1]]}
    page = opened.answer(answers | {"classify": {"predictions": [found]}})
    opened.choose(40, 60)
    page.wait_for_selector(".opacity")
    assert [sum(color) > 255 for color in opened.colors(*POINTS)] == REGIONS[resize]


def test_a_picture_can_be_dropped(opened, items):
    page = opened.answer(only("classifier"))
    page.wait_for_selector(".drop")
    data = page.evaluate_handle(
        """bytes => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], "a.png", {type: "image/png"}));
            return data;
        }""",
        list(items["classifier"][0]),
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
    opened.choose(8, 8)
    page.wait_for_selector(".status.error")
    assert page.locator(".status").inner_text() == "The server cannot read this picture."


def test_the_region_of_a_word_of_a_caption_lights_up(opened):
    page = opened.answer(only("captioner"))
    opened.choose(50, 50, 100)
    page.wait_for_selector(".word")
    assert page.locator(".word").all_inner_texts() == ["a", "cat"]
    corners = [(0.1, 0.1), (0.9, 0.9)]
    assert len({tuple(color) for color in opened.colors(*corners)}) == 1
    page.hover(".word >> nth=0")
    first, last = opened.colors(*corners)
    assert first != [100, 100, 100, 255] == last
    page.hover(".word >> nth=1")
    first, last = opened.colors(*corners)
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


LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
WIDE = (
    "all => all.filter(x => x.getBoundingClientRect().right > innerWidth + 1).map(x => x.outerHTML)"
)


@pytest.mark.parametrize("width", [320, 400])
def test_long_words_and_names_fit_on_a_phone(open_page, width):
    pieces = ["▁the", f"▁{LONG}", "▁cat", "</s>"]
    texts = {"n_best": [{"text": LONG, "score": -1.0}] * 2}
    found = texts | {"text": LONG, "source_pieces": pieces, "pieces": pieces}
    found |= {"attention": [[[[0.25] * 4] * 4]], "truncated": False}
    classes = [{"label": LONG, "score": 0.5}, {"label": "a dog with short hair", "score": 0.25}]
    image = {"classes": classes, "is_readable": True, "rollout": [[0, 1]]}
    models = [
        x | {"name": f"{x['name']}_{LONG}{i}"} for x in ANSWERS["models"]["models"] for i in (1, 2)
    ]
    answers = ANSWERS | {
        "models": {"models": models},
        "translate": {"translations": [found]},
        "classify": {"predictions": [image]},
        "caption": {"captions": [CAPTION | texts | {"pieces": pieces[:2] + ["</s>"]}]},
    }
    opened = open_page(viewport={"width": width, "height": 740}, has_touch=True, is_mobile=True)
    page = opened.answer(answers)
    page.fill("#panel-translator textarea", LONG)
    page.fill("#panel-text_classifier textarea", LONG)
    for kind in ("classifier", "captioner"):
        opened.choose(30, 400, panel=f"#panel-{kind}")
    for panel, part in (
        ("translator", ".word"),
        ("text_classifier", ".bar"),
        ("captioner", ".word"),
    ):
        page.wait_for_selector(f"#panel-{panel} {part}", state="attached")
    page.wait_for_selector("#panel-classifier .opacity")
    page.tap("#panel-translator .word >> nth=1")
    wide = page.locator("body :not(.scroll, .scroll *, .file)").evaluate_all(WIDE)
    assert not wide and page.evaluate("document.documentElement.scrollWidth") == width
    bars = page.locator(".track").evaluate_all("all => all.map(track => track.offsetWidth)")
    assert min(bars) > 60


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_horizontal_scrolling(open_page, scheme, tmp_path):
    size = {"width": 360, "height": 740}
    opened = open_page(viewport=size, color_scheme=scheme, has_touch=True, is_mobile=True)
    page = opened.answer(ANSWERS)
    for kind in ("translator", "text_classifier", "generator"):
        page.fill(f"#panel-{kind} textarea", "word " * 30 + "w" * 60)
    page.click("[data-part=start]")
    for kind in ("classifier", "captioner"):
        opened.choose(30, 400, panel=f"#panel-{kind}")
    page.tap("#panel-translator .word >> nth=0")
    page.wait_for_selector("#panel-captioner .word")
    page.screenshot(path=tmp_path / "phone.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    assert sum(opened.weights("target")) > 0


def test_a_text_is_drawn_by_a_seed_or_without(opened):
    page = opened.answer(only("text_to_image"))
    page.fill("textarea", "a red circle")
    page.click("[data-part=start]")
    canvases = page.locator(".drawings canvas")
    canvases.nth(2).wait_for()
    assert page.locator("figcaption").all_inner_texts() == ["−2.5"] * 3
    assert opened.colors((0.5, 0.5)) == [[50, 50, 50, 255]]  # the first one
    request = {"text": "a red circle", "count": 3, "model": "my_text_to_image"}
    assert opened.bodies[-1] == request
    page.fill("textarea", "a long text")
    page.fill("[data-part=seed]", "7")
    page.click("[data-part=start]")
    page.wait_for_selector(".status >> text=it is too long")
    assert opened.bodies[-1] == request | {"text": "a long text", "seed": 7}
