"""The pages of a job that is stored but not evaluated: its state and the reason, nothing drawn."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Page, expect

from stepwatch.collector.job_states import QUARANTINED, RESTORING
from stepwatch.collector.state.live import Withheld
from stepwatch.collector.web import documents, withheld_view
from tests.browser import Visitor
from tests.collector.process import Process

NAME = "broken-job"
REASON = "ValueError: rows do not fit"


def answer(page: Page, path: str, document: object) -> None:
    """Let the collector answer `path`, with or without a query, with a document of ours."""
    page.route(f"**{path}*", lambda route: route.fulfill(json=document))


def test_what_is_old_says_so_and_does_not_look_well(collector: Process, visitor: Visitor) -> None:
    why = Withheld("running", "", 1_800_000_000.0)
    now_s = 1_800_000_000.0
    line, summary = (
        documents.stale(build(NAME, why), now_s, now_s + 40.0)
        for build in (withheld_view.line, withheld_view.summary)
    )
    answer(visitor.page, "/v1/jobs", {"jobs": [line]})
    answer(visitor.page, f"/v1/jobs/{NAME}", {**summary, "reason": None})
    words = "as of 40 s ago; the collector that evaluates this job does not answer; it was running"
    visitor.page.goto(collector.url)
    row = visitor.page.locator("#jobs tbody tr")
    expect(row).to_contain_text(f"stale {words}")
    expect(row.locator(".s-good")).to_have_count(0)
    visitor.page.goto(f"{collector.url}/jobs/{NAME}")
    expect(visitor.page.locator(".verdict h1")).to_contain_text(words)
    expect(visitor.page.locator(".crumbs .state")).to_have_text("stale")


@pytest.mark.parametrize("state", [QUARANTINED, RESTORING])
def test_the_state_and_the_reason_are_shown(
    collector: Process, visitor: Visitor, state: str
) -> None:
    why = Withheld(state, REASON, 1_800_000_000.0)
    json.dumps(withheld_view.summary(NAME, why), allow_nan=False)
    answer(visitor.page, "/v1/jobs", {"jobs": [withheld_view.line(NAME, why)]})
    answer(visitor.page, f"/v1/jobs/{NAME}", withheld_view.summary(NAME, why))
    visitor.page.goto(collector.url)
    line = visitor.page.locator("#jobs tbody tr")
    expect(line).to_contain_text(f"{state} {REASON}")
    expect(line).not_to_contain_text("null")
    visitor.page.goto(f"{collector.url}/jobs/{NAME}")
    verdict = visitor.page.locator(".verdict")
    expect(verdict).to_contain_text(f"{state.capitalize()}: not evaluated since 2027-01-15")
    expect(verdict).to_contain_text(REASON)
    expect(visitor.page.locator("canvas.matrix")).to_have_count(0)
    expect(visitor.page.locator("#freshness")).to_have_text("live")
    assert visitor.errors == []
