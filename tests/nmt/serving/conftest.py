"""An untrained model, and a server of it in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from explored import fresh

from nmt.recipe import Recipe
from nmt.search.interface import SearchOptions
from nmt.serving.page import served_page
from nmt.serving.server import Server
from nmt.serving.service import Limits, Service
from nmt.system import System

DATA = {"corpus": "reverse", "source_language": "xx", "target_language": "yy"}
MODEL = {"layers": 1, "hidden_size": 4, "embedding_size": 3}
TEXTS = "all => all.map(x => x.textContent)"
OPTIONS = SearchOptions(beam=3, minimum_steps=4)


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory."""
    path = tmp_path_factory.mktemp("served") / "run"
    fresh(path, {"data": DATA, "model": MODEL}, System, Recipe)
    return path


@pytest.fixture(scope="session")
def system(run: Path) -> System:
    """Its system."""
    return System.open(run)


@pytest.fixture
def serving(system: System) -> Iterator[Callable[..., Server]]:
    """Starts servers on free ports: serving(words=8, waiting=1)."""
    running: list[tuple[Server, threading.Thread]] = []

    def start(**limits: Any) -> Server:
        service = Service(system, OPTIONS, Limits(**limits))
        server = Server(service, served_page(service, 1), "127.0.0.1", 0)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        running.append((server, thread))
        thread.start()
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


class Visit:
    """A window with the page, its requests and its errors."""

    def __init__(self, browser: Any, server: Server, **options: Any) -> None:
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(server.url)
        self.answers = 0

    def translate(self, text: str) -> None:
        """Type a sentence and wait for its answer."""
        self.answers += 1
        self.page.fill("#text", text)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector(f"html[data-answers='{self.answers}']")

    def refused(self, text: str) -> str:
        """Type a sentence and wait for what is wrong with it."""
        self.page.fill("#text", text)
        self.page.click("#go")
        self.page.wait_for_selector("#problem:not(:empty)")
        return str(self.page.inner_text("#problem"))

    def texts(self, selector: str) -> list[str]:
        """The texts of the elements."""
        return list(self.page.eval_on_selector_all(selector, TEXTS))


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Opens the page of a server."""
    visits: list[Visit] = []

    def opened(server: Server, **options: Any) -> Visit:
        visits.append(Visit(browser, server, **options))
        return visits[-1]

    yield opened
    for shown in visits:
        shown.context.close()
