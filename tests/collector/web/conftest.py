"""A browser for the tests of pages, and a collector with something to show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser import Visitor, opened_browser
from tests.collector.process import Process

from .shown import send, straggling_run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    opened = Visitor(browser)
    yield opened
    opened.page.close()


@pytest.fixture(scope="module")
def straggling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One for all tests that only look."""
    process = Process(tmp_path_factory.mktemp("collector"))
    process.start()
    process.wait_ready()
    send(process, straggling_run())
    yield process
    process.end()
