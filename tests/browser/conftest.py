"""Pages in a real browser: headless Chromium, offline, watched for requests, errors and dialogs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))  # attention_samples

from seq2seq.attention_maps import AttentionMaps
from viz.page import write

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium; where there is none, tests are skipped on a desk and fail in CI."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        message = "no Chromium with Playwright (apt install chromium; pip install playwright)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        yield chromium
        chromium.close()


@dataclass
class Watched:
    """A page that is open, and what it did."""

    page: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def js(self, expression: str, argument: object = None) -> Any:
        return self.page.evaluate(expression, argument)

    def text(self, selector: str) -> str:
        return str(self.page.text_content(selector))

    def texts(self, selector: str) -> list[str]:
        every = "(all) => all.map((one) => one.textContent)"
        return list(self.page.eval_on_selector_all(selector, every))

    def attributes(self, selector: str, name: str) -> list[str]:
        every = "(all, name) => all.map((one) => one.getAttribute(name))"
        return list(self.page.eval_on_selector_all(selector, every, name))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)
        self.settled()

    def settled(self) -> None:
        """Until what was asked for is drawn, and what is announced was announced."""
        self.page.wait_for_timeout(30)
        self.page.wait_for_function(
            """() => !globalThis.attention
                || document.querySelector("#status").textContent === attention.said()"""
        )

    def change(self, **values: object) -> None:
        self.js("(values) => attention.change(values)", values)
        self.settled()

    def weights(self, head: str, level: str = "piece", record: int = 0) -> list[list[float]]:
        return self.js(
            """([record, head, level]) => {
                const { n, m, a } = attention.matrix(attention.records[record], head, level);
                return Array.from({ length: n }, (_, i) => [...a.slice(i * m, i * m + m)]);
            }""",
            [record, head, level],
        )

    def centre(self, query: int, key: int, plot: int = 0) -> tuple[float, float]:
        """Where a cell lies on the screen, once it was scrolled to."""
        x, y = self.js(
            """([query, key, plot]) => {
                const { box, pitch } = attention.plots()[plot];
                const stage = document.querySelector("#stage");
                stage.scrollIntoView({ block: "start" });
                stage.scrollTo((key - 5) * pitch, (query - 5) * pitch);
                const { left, top } = box.getBoundingClientRect();
                return [left + (key + 0.5) * pitch, top + (query + 0.5) * pitch];
            }""",
            [query, key, plot],
        )
        return x, y


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Opens the page of records; every context is closed, and none may have complained."""
    contexts = []
    opened: list[Watched] = []

    def open_page(
        *records: AttentionMaps,
        link: str = "",
        size: tuple[int, int] = (1280, 900),
        context: dict[str, object] | None = None,
        path: Path | None = None,
        **options: object,
    ) -> Watched:
        if path is None:
            path = tmp_path / f"page-{len(opened)}.html"
            write(records, path, **options)
        viewport = {"width": size[0], "height": size[1]}
        made = browser.new_context(offline=True, viewport=viewport, **(context or {}))
        made.set_default_timeout(60_000)  # for busy machines
        contexts.append(made)
        watched = Watched(made.new_page())
        watched.page.on("request", lambda request: watched.requests.append(request.url))
        watched.page.on("console", lambda message: watched.messages.append(message.text))
        watched.page.on("pageerror", lambda error: watched.messages.append(str(error)))
        watched.page.on("dialog", lambda dialog: watched.messages.append("a dialog opened"))
        watched.page.goto(path.as_uri() + link)
        if records:
            watched.page.wait_for_selector('html[data-ready="1"]')
            watched.settled()
        opened.append(watched)
        return watched

    yield open_page
    for made in contexts:
        made.close()
    assert [message for watched in opened for message in watched.messages] == []
