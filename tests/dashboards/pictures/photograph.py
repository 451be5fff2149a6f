"""Draws dashboards in Chromium and photographs them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from tests.browser import opened_browser
from tests.dashboards.node.toolchain import install

HERE = Path(__file__).parent
WIDTH = 1280
COLORS = 128
"""Enough for flat areas and text: a third of the bytes, so that a repository can keep them."""


def photograph(shown: Mapping[str, Any], out: Path) -> list[Path]:
    """Write a PNG of each dashboard of `shown` (see `shown.mjs`) into `out`; returns the files.

    Raises:
        AssertionError: the page complained.
    """
    uplot = install() / "node_modules/uplot/dist"
    out.mkdir(parents=True, exist_ok=True)
    files, messages = [], list[str]()
    with opened_browser() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": 100}, color_scheme="dark")
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.set_content("<!doctype html><html><body></body></html>")
        page.add_script_tag(path=uplot / "uPlot.iife.min.js")
        page.add_style_tag(path=uplot / "uPlot.min.css")
        page.add_style_tag(path=HERE / "style.css")
        page.add_script_tag(path=HERE / "draw.js")
        for name, board in sorted(shown["boards"].items()):
            page.evaluate("([board, from, to]) => draw(board, from, to)",
                          [board, shown["from"], shown["to"]])  # fmt: skip
            files.append(out / name.replace(".json", ".png"))
            page.screenshot(path=files[-1], full_page=True)
            _reduce(files[-1])
    assert not messages, messages
    return files


def _reduce(file: Path) -> None:
    with Image.open(file) as picture:
        reduced = picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    reduced.save(file, optimize=True)
