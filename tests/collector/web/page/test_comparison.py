"""A job's curves beside those of its former attempts, and of another job's attempt."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import httpx
import pytest
from playwright.sync_api import Page, expect

from stepwatch.signals.clock import NANOSECONDS
from tests.browser import Visitor
from tests.collector.made import JOB, run_segments
from tests.collector.process import Process
from tests.collector.runtime.test_restart import eventful_run
from tests.collector.web.history.test_collector import send as send_at

STEPS, RESUMED = 60, 40
OTHER = "other"
MINUTE_NS = 60 * NANOSECONDS
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A job whose second attempt resumed at step 40, and another job."""
    process = Process(tmp_path_factory.mktemp("collector"))
    process.start()
    process.wait_ready()
    send_at(process, eventful_run(), -MINUTE_NS)
    send_at(process, run_segments(STEPS, 1, job=OTHER), -MINUTE_NS)
    yield process
    process.end()


def rows_of(page: Page, title: str) -> list[list[str]]:
    """The cells of a track's table as its menu copies them, the head first."""
    menu = page.locator(".board .track", has_text=title).locator(".menu")
    menu.locator("summary").click()
    menu.get_by_role("button", name="Copy table").click()
    expect(menu.get_by_role("button", name="Copied")).to_be_visible()
    lines = str(page.evaluate("navigator.clipboard.readText()")).splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def test_a_former_attempt_is_chosen_and_drawn_by_step(resumed: Process, visitor: Visitor) -> None:
    page = visitor.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{resumed.url}/jobs/{JOB}?range=all")
    choice = page.get_by_label("Compare")
    expect(choice.locator("option")).to_have_text(
        ["+ compare", "with attempt 0", f"with {OTHER}"], timeout=PATIENCE_MS
    )
    choice.select_option(label="with attempt 0")
    assert page.url.endswith(f"compare={JOB}%400"), "a link shows the same"
    track = page.locator(".board .track", has_text="step time")
    expect(track.locator("figcaption")).to_contain_text("step time of attempt 0")
    head, *rows = rows_of(page, "step time")
    assert head == ["Step", "step time", "step time of attempt 0"]
    steps = {int(row[0]): row[1:] for row in rows}
    assert len(steps) == STEPS
    assert all(steps[step][1] for step in steps)
    assert steps[RESUMED][0] != steps[RESUMED][1], "the former attempt was slower there"
    assert visitor.errors == []


def test_by_time_a_former_attempt_begins_with_the_newest(
    resumed: Process, visitor: Visitor
) -> None:
    page = visitor.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{resumed.url}/jobs/{JOB}?range=all&axis=time&compare={JOB}@0")
    track = page.locator(".board .track", has_text="loss")
    expect(track.locator("figcaption")).to_contain_text("attempt 0", timeout=PATIENCE_MS)
    _, *rows = rows_of(page, "loss")
    attempts = httpx.get(f"{resumed.url}/v1/jobs/{JOB}").json()["attempts"]
    began = {item["attempt"]: item["began_at"] for item in attempts}
    former = [unix(row[0]) for row in rows if row[2]]
    own = [unix(row[0]) for row in rows if row[1]]
    assert began[1] - 1 <= min(former) <= began[1] + 5
    assert min(own) < began[0] + 5, "its own curve stays at its moments"
    assert all(later >= sooner for later, sooner in pairwise(former)), "the last one first"
    assert visitor.errors == []


def unix(words: str) -> float:
    """Unix seconds of a moment in a copied table."""
    return datetime.strptime(words, "%Y-%m-%d %H:%M:%S %Z").replace(tzinfo=UTC).timestamp()


def test_an_attempt_of_another_job_and_one_that_is_not(resumed: Process, visitor: Visitor) -> None:
    page = visitor.page
    page.goto(f"{resumed.url}/jobs/{OTHER}?range=all&compare={JOB}@1")
    track = page.locator(".board .track", has_text="loss")
    words = f"{JOB}, attempt 1"
    expect(track.locator("figcaption")).to_contain_text(f"loss of {words}", timeout=PATIENCE_MS)
    expect(page.get_by_label("Compare").locator("option:checked")).to_have_text(f"with {words}")
    page.goto(f"{resumed.url}/jobs/{OTHER}?range=all&compare={JOB}@7")
    expect(page.get_by_label("Compare").locator("option:checked")).to_contain_text("attempt 7")
    expect(track.locator("figcaption")).to_contain_text("loss")
    expect(track.locator("figcaption")).not_to_contain_text("attempt")
    assert visitor.errors == []
