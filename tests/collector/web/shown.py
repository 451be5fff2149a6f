"""A run of which one rank is slow, and its page once a collector has found that."""

from __future__ import annotations

import time

from playwright.sync_api import Page, expect

from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.wire import Segment
from tests.browser import Visitor
from tests.collector.made import JOB, body, run_segments
from tests.collector.process import Process

STEPS, RANKS, SLOW_FROM = 60, 4, 40
EXCESS = {(2, "forward"): 0.2}
PATIENCE_MS = 60_000
"""Until something is on the page: no test says how soon, and the machine may be busy."""
expect.set_options(timeout=PATIENCE_MS)


def send(collector: Process, segments: list[Segment]) -> None:
    """Post a run that has just come to its last step."""
    began = time.time_ns() - round(STEPS * 0.2 * NANOSECONDS)
    for item in segments:
        now = item._replace(clock=ClockPair(0, began))
        assert collector.send(body([now])).json()["verdicts"][0]["verdict"] == "accepted"


def straggling_run() -> list[Segment]:
    return run_segments(STEPS, RANKS, excess=EXCESS, slow_from=SLOW_FROM)


def evaluated(collector: Process, visitor: Visitor, query: str = "") -> Page:
    """The job's page once its incident is there."""
    visitor.page.goto(f"{collector.url}/jobs/{JOB}{query}")
    expect(visitor.page.locator(".verdict h1")).to_contain_text("rank 2", timeout=PATIENCE_MS)
    return visitor.page


def opened(page: Page, *sections: str) -> None:
    """Open folded sections of a page by their ids."""
    for section in sections:
        page.locator(f"#{section} > summary").click()
