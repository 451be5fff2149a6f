"""Takes a page's picture in light, dark and on a phone, as a small file."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser

from tests.browser import Visitor

LOOKS = {"light": (1440, False), "dark": (1440, True), "phone": (390, False)}
"""Width in pixels and whether the ground is dark, by look."""
COLOURS = 160
"""Colours a picture keeps: curves and text lose nothing that the eye sees."""
SETTLED_MS = 2_500
"""Until curves are drawn after the awaited element is there."""
PATIENCE_MS = 120_000


class Camera:
    """Photographs pages into a folder."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder

    def take(self, name: str, url: str, awaited: str, opened: tuple[str, ...] = ()) -> None:
        """Write `name-LOOK.png` for each look, once the selector `awaited` is visible.

        Sections with the ids `opened` are opened before.

        Raises:
            AssertionError: the page reports an error.
        """
        for look, (width, dark) in LOOKS.items():
            visitor = Visitor(self._browser, width, dark)
            visitor.page.goto(url)
            visitor.page.locator(awaited).first.wait_for(timeout=PATIENCE_MS)
            for section in opened:
                visitor.page.locator(f"#{section} > summary").click()
            visitor.page.wait_for_timeout(SETTLED_MS)
            shot = visitor.page.screenshot()
            visitor.page.close()
            assert visitor.errors == [], visitor.errors
            path = self._folder / f"{name}-{look}.png"
            picture = Image.open(io.BytesIO(shot)).convert("RGB").quantize(COLOURS)
            picture.save(path, optimize=True)
            print(f"{path}  {path.stat().st_size // 1000} kB", flush=True)
