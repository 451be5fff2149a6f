"""`python -m tests.e2e.picture FILE` photographs a demo's page, for the README.

The page looks as if a user had opened the incident's link during the run.
"""

from __future__ import annotations

import subprocess
import sys
import time

from playwright.sync_api import Error, Page, sync_playwright

from tests.ports import free_port
from tests.waiting import until

from .demos import demo_words
from .test_demo import CHROMIUM, CHROMIUM_WORDS

WIDTH, HEIGHT = 1280, 1300
PATIENCE_MS = 120_000
SETTLE_SECONDS = 8.0
"""After the incident opened: the steps since then are drawn, too."""


def photograph(page: Page, url: str, file: str) -> None:
    """Wait for the incident, and write the page to `file`."""
    until("the demo's page", lambda: answers(page, url))
    page.locator(".verdict[data-incident]").wait_for(timeout=PATIENCE_MS)
    time.sleep(SETTLE_SECONDS)
    page.screenshot(path=file)


def answers(page: Page, url: str) -> bool:
    """Return whether a server listens there."""
    try:
        return page.goto(url) is not None
    except Error:
        return False


def main(file: str) -> int:
    """Run a demo until its page is photographed."""
    port = free_port()
    demo = subprocess.Popen(demo_words("--port", str(port)), stdout=subprocess.DEVNULL)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_WORDS)
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            photograph(page, f"http://127.0.0.1:{port}/jobs/demo", file)
            browser.close()
    finally:
        demo.terminate()
        demo.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
