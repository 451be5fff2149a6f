"""The first page in a real browser: what needs action, search, filters, thousands of jobs."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.wire import Segment
from tests.browser import Visitor
from tests.collector.made import JOB, body, run_segments
from tests.collector.process import Process, running

from . import fleets

LONG = "long-" * 100
MARKUP = "<img src=x onerror=\"document.title='taken'\">"
RIGHT_TO_LEFT = "تجربة-النموذج"
MANY = pytest.mark.long(
    "tests/collector/web/test_fleet_page.py::test_thousands_of_jobs_are_read_with_keys"
)
UNWORDED = re.compile("NaN|undefined|null|Infinity|\\[object")


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A collector without jobs: the browser answers for it."""
    with running(tmp_path_factory.mktemp("idle")) as process:
        yield process


def shown(
    visitor: Visitor, collector: Process, lines: list[dict[str, Any]], query: str = ""
) -> Page:
    """Open the first page over a list of ours."""
    visitor.page.route("**/v1/jobs", lambda route: route.fulfill(json={"jobs": lines}))
    visitor.page.goto(f"{collector.url}/{query}")
    expect(visitor.page.locator("#jobs tbody tr").first).to_be_visible()
    return visitor.page


def sent(collector: Process, segments: list[Segment], began_ns: int) -> None:
    timed = [item._replace(clock=ClockPair(0, began_ns)) for item in segments]
    answer = collector.send(body(timed)).json()
    assert {item["verdict"] for item in answer["verdicts"]} == {"accepted"}


@pytest.mark.parametrize("count", [500, pytest.param(5_000, marks=MANY)])
def test_thousands_of_jobs_are_read_with_keys(idle: Process, visitor: Visitor, count: int) -> None:
    page = shown(visitor, idle, fleets.fleet(count))
    rows = page.locator("#jobs tbody tr")
    going = f"{count - 2:,}"
    sentence = f"1 of {going} jobs needs action: run-0017 is 47% slower since "
    expect(page.locator("h1")).to_contain_text(sentence)
    expect(rows.nth(0)).to_contain_text("run-0017")
    expect(rows.nth(1)).to_contain_text("run-0101")
    assert rows.count() < 60, "only visible rows are in the document"
    expect(page.locator("#jobs")).to_have_attribute("aria-rowcount", str(count + 1))
    for _ in range(40):
        page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "run-0037"
    expect(page.locator("#jobs tr.chosen")).to_be_in_viewport(ratio=1)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(page.locator(f"[data-job=run-{fleets.STOPPED:04d}]")).to_be_in_viewport()
    assert rows.count() < 60
    page.keyboard.press("f")
    page.keyboard.type("run-04 vision")
    assert "q=run-04+vision" in page.url
    expect(page.get_by_role("button", name=re.compile("^all "))).to_have_text("all 34")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/jobs/run-0401$"))
    page.go_back()
    expect(page.locator(".filter")).to_have_value("run-04 vision")


def test_state_order_and_groups_are_in_the_address(
    idle: Process, visitor: Visitor, browser: Browser
) -> None:
    lines = fleets.fleet(500)
    page = shown(visitor, idle, lines)
    rows = page.locator("#jobs tbody tr")
    page.get_by_role("button", name=re.compile("^ended")).click()
    expect(rows).to_have_text([re.compile("run-0202.*failed"), re.compile("run-0303.*finished")])
    expect(rows.locator(".s-bad")).to_have_count(0)
    page.get_by_role("button", name="show all").click()
    page.get_by_label("project").select_option("vision")
    page.get_by_label("Group by").select_option("class")
    head = page.get_by_role("columnheader", name="Goodput")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(rows.first).to_have_text(re.compile("^research [0-9]+ jobs"))
    expect(rows.nth(1)).to_contain_text("89.0%")
    assert page.url.endswith("?project=vision&group=class&sort=goodput")
    again = Visitor(browser)
    shown(again, idle, lines, page.url.removeprefix(f"{idle.url}/"))
    expect(again.page.locator("#jobs tbody tr").nth(1)).to_contain_text("89.0%")
    again.page.close()
    page.goto(f"{idle.url}/?node=gpu-07")
    expect(page.locator("main")).to_contain_text("with many nodes may use gpu-07, too")
    expect(page.get_by_role("button", name=re.compile("^all "))).to_have_text(
        f"all {sum('gpu-07' in line['nodes']['first'] for line in lines)}"
    )
    assert visitor.errors == []


@pytest.mark.parametrize(
    ("width", "dark"), [(1440, False), (1440, True), (1000, False), (390, True), (360, False)]
)
def test_names_and_widths(idle: Process, browser: Browser, width: int, dark: bool) -> None:
    visitor = Visitor(browser, width, dark)
    names = (LONG, MARKUP, RIGHT_TO_LEFT)
    odd = [fleets.entry(n, job=name) for n, name in enumerate(names)]
    odd[0] |= fleets.degraded("incident")
    page = shown(visitor, idle, [*odd, *fleets.fleet(4)[3:]])
    rows = page.locator("#jobs tbody tr")
    expect(page.locator("h1 bdi")).to_have_text(re.compile("^long-long-.*….*-long-$"))
    for name in names:
        expect(rows.get_by_role("link", name=name, exact=True)).to_have_text(name)
    expect(rows.locator("img")).to_have_count(0)
    heights = {box["height"] for row in rows.all() if (box := row.bounding_box())}
    assert len(heights) == 1, "no text makes a row higher"
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    ground = str(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    brightness = sum(int(part) for part in ground.strip("rgb()").split(",")) / 3
    assert (brightness < 60) if dark else (brightness > 200)
    if width <= 390:
        page.get_by_role("button", name="more", exact=True).click()
    page.get_by_label("Group by").select_option("class")
    expect(page.locator("#jobs tr.group")).to_have_count(3)
    assert not UNWORDED.search(page.locator("main").inner_text())
    assert page.title() != "taken" and visitor.errors == []
    page.close()


def test_red_is_only_where_an_incident_is_open(idle: Process, visitor: Visitor) -> None:
    lines = [
        fleets.entry(number, state=state, worst=None, open_incidents=None if number > 3 else 0)
        for number, state in enumerate(("running", "running", "failed", "finished", "quarantined"))
    ]
    page = shown(visitor, idle, lines)
    expect(page.locator("h1")).to_have_text("2 of 3 jobs train; 1 does not report")
    expect(page.locator(".s-bad, .t-bad")).to_have_count(0)
    lines[4] = fleets.entry(4)
    page.reload()
    expect(page.locator("h1")).to_have_text("All 3 jobs train")
    assert page.title() == "Fleet · stepwatch"
    assert visitor.errors == []


def test_a_page_that_is_left_open(collector: Process, visitor: Visitor) -> None:
    """It is empty, fills itself, shows the job that becomes slow first, and says what is old."""
    page, asked = visitor.page, list[Request]()
    page.on("request", lambda request: asked.append(request))
    page.goto(collector.url)
    commands = page.locator("#empty .command")
    agent = re.compile(f"--collector {collector.url}$")
    expect(commands).to_have_text([agent, re.compile("^stepwatch run")])
    began = time.time_ns() - 12 * NANOSECONDS
    for name in ("alpha", "beta"):
        sent(collector, run_segments(40, 2, job=name), began)
    slow = run_segments(60, 2, excess={(1, "forward"): 0.2}, slow_from=40, job="omega")
    sent(collector, slow[:8], began)
    jobs = page.locator("#jobs tbody tr .c-job a")
    expect(page.locator("h1")).to_have_text("All 3 jobs train")
    expect(jobs).to_have_text(["alpha", "beta", "omega"])
    jobs.last.focus()
    sent(collector, slow[8:], began)
    for name in ("alpha", "beta"):
        sent(collector, run_segments(60, 2, job=name)[8:], began)
    expect(page.locator("h1")).to_contain_text("1 of 3 jobs needs action: omega is 50% slower")
    expect(jobs).to_have_text(["omega", "alpha", "beta"])
    expect(page.locator("#jobs tbody tr").first).to_contain_text("rank 1 is slow in forward")
    expect(jobs.first).to_be_focused()
    expect(page.locator("#open")).to_have_text("1 open")
    assert page.title() == "(1) Fleet · stepwatch"
    lists = [request for request in asked if request.url.endswith("/v1/jobs")]
    assert len(lists) == 1, "events changed the list"
    page.locator("#open").click()
    expect(jobs).to_have_text(["omega"])
    assert visitor.errors == []
    collector.end()
    expect(page.locator("#failed")).to_contain_text("The list below is old.")
    expect(page.locator("#failed .command")).to_contain_text(f"{collector.url}/healthz")
    collector.start()
    expect(page.locator("#failed")).to_have_count(0)
    expect(jobs.first).to_have_text("omega")


def test_search_leads_to_jobs_and_incidents(straggling: Process, visitor: Visitor) -> None:
    page = visitor.page
    page.goto(straggling.url)
    expect(page.locator("#jobs tbody tr .c-what a")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type(JOB[:6])
    options = page.locator(".found [role=option]")
    expect(options.first).to_contain_text(JOB)
    expect(page.get_by_role("group", name="Incidents")).to_contain_text("rank 2 is slow")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{straggling.url}/jobs/{JOB}")
    expect(page.locator(".found")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("no such name")
    expect(page.locator(".found")).to_have_text("Nothing has this name or these words.")
    page.keyboard.press("Escape")
    expect(page.locator(".found")).to_have_count(0)
    assert visitor.errors == []
