"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser import Visitor, opened_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened_browser() as opened:
        yield opened


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Visitor]:
    opened = Visitor(browser)
    yield opened
    opened.page.close()
