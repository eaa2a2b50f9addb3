"""A real browser: Chromium, driven by Playwright."""

import json
import shutil
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

import tfx_transformer.serving
from tfx_transformer.serving.app import POLICY

PAGE = Path(tfx_transformer.serving.__file__).parent / "page"
FAKE = "http://page.test/"
ARGUMENTS = ["--no-sandbox", "--use-fake-ui-for-media-stream"]
ARGUMENTS += ["--use-fake-device-for-media-stream"]  # a camera that shows a test picture
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
TYPES |= {".svg": "image/svg+xml"}
WEIGHTS = "words => words.map(word => Number(word.style.getPropertyValue('--weight') || 0))"
COLORS = """(canvas, points) => points.map(([x, y]) => [...canvas.getContext("2d").getImageData(
    Math.floor(x * canvas.width), Math.floor(y * canvas.height), 1, 1).data])"""


class Opened:
    """An open page that records its console errors and the addresses of its requests."""

    def __init__(self, page):
        self.page, self.host = page, FAKE
        self.errors, self.addresses, self.bodies = [], [], []
        page.on("console", lambda message: message.type == "error" and self.note(message.text))
        page.on("pageerror", lambda error: self.note(str(error)))
        page.on("request", lambda request: self.addresses.append(request.url))

    def note(self, error):
        if "Failed to load resource" not in error:  # an answer that is an error, see `addresses`
            self.errors.append(error)

    def answer(self, answers):
        """Shows the page with fixed answers by path: JSON, text of events, or (status, JSON)."""

        def fulfill(route):
            name = route.request.url.removeprefix(FAKE)
            if name in answers:
                self.bodies.append(route.request.post_data_json)
                found = answers[name](route.request) if callable(answers[name]) else answers[name]
                status, content = found if isinstance(found, tuple) else (200, found)
                body = content if isinstance(content, str) else json.dumps(content)
                return route.fulfill(status=status, body=body)
            path = PAGE / (name.removeprefix("static/") or "index.html")
            headers = {"Content-Type": TYPES[path.suffix], "Content-Security-Policy": POLICY}
            return route.fulfill(body=path.read_bytes(), headers=headers)

        self.page.route("**/*", fulfill)
        return self.visit(FAKE)

    def visit(self, address):
        self.host = address
        self.page.goto(address)
        return self.page

    def choose(self, height, width, gray=0, panel=""):
        """Chooses a gray picture as a file."""
        file = {"name": "a.png", "mimeType": "image/png", "buffer": png(height, width, gray)}
        self.page.set_input_files(f"{panel} .file", file)

    def weights(self, part):
        """How much each word of a row is lit, 0 … 1."""
        return self.page.locator(f"[data-part={part}] .word").evaluate_all(WEIGHTS)

    def colors(self, *points):
        """The colors of the picture at relative points (x, y)."""
        return self.page.locator("canvas").first.evaluate(COLORS, points)

    def check(self):
        """Nothing was wrong, and no request went elsewhere."""
        assert not self.errors
        assert self.addresses and all(x.startswith(self.host) for x in self.addresses)


def png(height, width, gray):
    file = BytesIO()
    Image.new("RGB", (width, height), (gray,) * 3).save(file, "png")
    return file.getvalue()


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip("there is no Chromium")
    with playwright.sync_playwright() as run:
        browser = run.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Opens a tab with options such as `viewport`."""
    opened = []

    def open_tab(**options):
        opened.append(Opened(browser.new_context(**options).new_page()))
        return opened[-1]

    yield open_tab
    for each in opened:
        each.page.context.close()
        each.check()


@pytest.fixture
def opened(open_page):
    return open_page()
