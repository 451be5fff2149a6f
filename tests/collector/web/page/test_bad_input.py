"""The page of jobs that are hard to show, and behind a proxy that holds events back."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment
from tests.bench.page import send_run
from tests.browser import Visitor
from tests.collector.made import run_segments, segment
from tests.collector.process import Process
from tests.collector.state.trackers.metrics.test_metrics import metric_rows, name_rows
from tests.collector.web.history.test_collector import AHEAD, HOUR_NS, STEPS, hard_run
from tests.collector.web.history.test_collector import JOB as HARD
from tests.collector.web.history.test_collector import send as send_at
from tests.waiting import until

from .proxy import holding_back

NAMED, HEALTHY = "named", "healthy"
LONG, FOREIGN = "w" * 48, "\u640d\u5931" * 7 + "\u043f\u043e\u0442"
"""Metric names of 48 bytes, the most that a record holds."""
NUMBERS = {4: LONG, 5: FOREIGN}
NAMES = {
    1: "m" * 64,
    2: "\u202e\u05d4\u05e4\u05e1\u05d3\u202c",
    3: "<img src=x onerror=alert(1)>",
    **NUMBERS,
}
UNWORDED = re.compile(r"NaN|undefined|\bnull\b|Infinity")
NEVER = [np.nan, np.inf, -np.inf]
PATIENCE_MS = 60_000
MANY_RANKS, MANY_STEPS, MOST_STEPS = 16_384, 1_000_000, 10_000_000
RECEIVED_STEPS = 100_000
PHONE = 360


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One collector of all hard jobs."""
    process = Process(tmp_path_factory.mktemp("collector"))
    process.start()
    process.wait_ready()
    send_at(process, hard_run(), 0)
    send_at(process, run_segments(STEPS, 1, job=AHEAD), HOUR_NS)
    send_at(process, named_run(), 0)
    send_at(process, run_segments(STEPS, 4, job=HEALTHY), 0)
    yield process
    process.end()


def named_run() -> list[Segment]:
    """A run whose metrics have hard names; the values of most are no numbers."""
    rows = [
        metric_rows(step, [step if number in NUMBERS else NEVER[step % 3]], number, 0.2)
        for number in NAMES
        for step in range(9)
    ]
    tables = {Kind.METRIC_NAME: name_rows(NAMES, [0]), Kind.METRIC: np.concatenate(rows)}
    return [*run_segments(STEPS, 1, job=NAMED), segment(99, tables, NAMED)]


def looked(visitor: Visitor, url: str, job: str, query: str = "?range=all") -> Page:
    """The page of a job once it is drawn; it has no words of a program, and no error."""
    page = visitor.page
    page.goto(f"{url}/jobs/{job}{query}")
    expect(page.locator(".verdict h1")).to_be_visible(timeout=PATIENCE_MS)
    expect(page.locator(".board .track").first).to_be_visible(timeout=PATIENCE_MS)
    assert not UNWORDED.search(page.locator("main").inner_text())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert visitor.errors == []
    return page


def test_values_that_are_no_numbers_and_an_attempt_without_a_step(
    collector: Process, visitor: Visitor
) -> None:
    page = looked(visitor, collector.url, HARD, "?range=all&axis=time&metric=bleu")
    expect(page.locator(".track", has_text="bleu")).to_be_visible()
    expect(page.locator(".crumbs")).to_contain_text("attempt 1")
    page.get_by_text("Table of these curves").click()
    assert not UNWORDED.search(page.locator(".board table").inner_text())


def test_names_are_text(collector: Process, visitor: Visitor) -> None:
    chosen = "&".join(f"metric={httpx.QueryParams({'m': name})}"[9:] for name in NAMES.values())
    page = looked(visitor, collector.url, NAMED, f"?range=all&{chosen}")
    assert page.locator("img, [onerror]").count() == 0
    assert "\u202e" not in page.locator("main").inner_text(), "nothing turns the text round"


def test_the_longest_and_foreign_names_fit_a_phone(collector: Process, browser: Browser) -> None:
    assert len(LONG) == len(FOREIGN.encode()) == 48
    visitor = Visitor(browser, width=PHONE)
    page = looked(visitor, collector.url, NAMED, f"?range=all&metric={LONG}&metric={FOREIGN}")
    for name in (LONG, FOREIGN):
        expect(page.locator(".track", has_text=name)).to_be_visible()
    page.get_by_text("Table of these curves").click()
    expect(page.locator(".behind thead")).to_contain_text(FOREIGN)
    page.locator(".track", has_text=LONG).locator(".menu summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    page.close()


def test_a_clock_that_is_an_hour_ahead(collector: Process, visitor: Visitor) -> None:
    page = looked(visitor, collector.url, AHEAD)
    assert not re.search(r"-\d+(\.\d+)? (s|min|h)\b", page.locator("main").inner_text())


def test_behind_a_proxy_that_holds_events_back_the_page_asks(
    collector: Process, visitor: Visitor
) -> None:
    with holding_back(collector.url) as url:
        page = looked(visitor, url, HEALTHY)
        expect(page.locator("#freshness")).to_have_text("asks every 3 s", timeout=PATIENCE_MS)
        before = _newest_step(collector)
        more = [item for item in run_segments(STEPS + 10, 4, job=HEALTHY) if item.key.sequence > 8]
        send_at(collector, more, 0)
        until("the steps to arrive", lambda: _newest_step(collector) == STEPS + 9)
        assert before == STEPS - 1
        expect(page.locator("main")).to_contain_text(str(STEPS + 9), timeout=PATIENCE_MS)
        page.goto("about:blank")


def _newest_step(collector: Process) -> Any:
    return httpx.get(f"{collector.url}/v1/jobs/{HEALTHY}").json()["step"]


@pytest.mark.long("tests/collector/web/page/test_bad_input.py::test_names_are_text")
def test_many_ranks_and_many_steps(collector: Process, visitor: Visitor) -> None:
    send_run(collector.url, "long", MANY_STEPS)
    page = looked(visitor, collector.url, "long")
    expect(page.locator("#cell")).to_contain_text("by rank")
    words = [
        "simulate", "--ranks", str(MANY_RANKS), "--steps", "20", "--speed", "0", "--job", "wide",
        "--fault", "slow-compute:rank=5000,step=2", "--collector", collector.url,
    ]  # fmt: skip
    subprocess.run([sys.executable, "-m", "stepwatch.cli", *words], check=True, timeout=300)
    page = looked(visitor, collector.url, "wide")
    page.locator("canvas.matrix").focus()
    for _ in range(5000 * 64 // MANY_RANKS):
        page.keyboard.press("ArrowDown")
    expect(page.locator("#cell")).to_contain_text("most by rank 5000")
    page.keyboard.press("Enter")
    expect(page.locator("#drawer")).to_contain_text("sim-00625")


def test_the_newest_of_ten_million_steps(collector: Process, browser: Browser) -> None:
    send_run(collector.url, "longest", MOST_STEPS + 1, MOST_STEPS - RECEIVED_STEPS)
    for width in (1280, PHONE):
        visitor = Visitor(browser, width)
        page = looked(visitor, collector.url, "longest")
        expect(page.locator("#cell")).to_contain_text("by rank", timeout=PATIENCE_MS)
        expect(page.locator(".ticks span").last).to_have_text("10,000,000")
        assert apart(page)
        page.get_by_text("Table of these curves").click()
        expect(page.locator(".behind tbody tr").first).to_contain_text("10,000,000")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_role("button", name="by time").click()
        expect(page.locator(".unit")).to_have_text("time")
        assert apart(page)
        page.close()


def apart(page: Page) -> bool:
    """Whether the labels of the axis do not overlap, and no label lies outside the page."""
    boxes = [label.bounding_box() for label in page.locator(".ticks span").all()]
    ends = [(box["x"], box["x"] + box["width"]) for box in boxes if box]
    width = page.evaluate("innerWidth")
    inside = all(left >= 0 and right <= width for left, right in ends)
    return len(ends) > 1 and inside and all(a[1] < b[0] for a, b in pairwise(ends))
