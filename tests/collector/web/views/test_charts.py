"""Every chart has a table behind it, and a menu that copies it, in a real browser."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser import Visitor
from tests.collector.made import JOB
from tests.collector.process import Process
from tests.collector.web.accessible import violations
from tests.waiting import until

from .runs import OTHER, PATIENCE_MS, STEPS

MOST_ROWS = 200
SPENT_COLUMNS = 4


@pytest.fixture
def copying(visitor: Visitor) -> Iterator[Page]:
    """A page that may copy."""
    visitor.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield visitor.page
    assert visitor.errors == []


def incident_path(collector: Process) -> str:
    """The path of an incident of the slow job, once there is one."""

    def found() -> list[str]:
        answer = httpx.get(f"{collector.url}/v1/incidents?job={JOB}").json()
        return [f"/incidents/{item['id']}" for item in answer["incidents"]]

    return str(until("an incident", found)[0])


def table_of(place: Locator) -> Locator:
    """The rows of the table behind charts, opened."""
    place.locator(".behind > summary").click()
    return place.locator(".behind tbody tr")


def copied(page: Page, button: Locator) -> list[str]:
    """The lines that a button copies."""
    button.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    return str(page.evaluate("navigator.clipboard.readText()")).splitlines()


def saved(page: Page, menu: Locator) -> tuple[str, Image.Image]:
    """The name and the picture that a chart's menu saves."""
    if not menu.evaluate("menu => menu.open"):
        menu.locator("summary").click()
    with page.expect_download() as saving:
        menu.get_by_role("button", name="Download picture").click()
    picture = Image.open(io.BytesIO(Path(saving.value.path()).read_bytes()))
    return saving.value.suggested_filename, picture.convert("RGB")


def test_curves_of_compared_runs_have_a_table(hours: Process, copying: Page) -> None:
    copying.goto(f"{hours.url}/compare?job={JOB}&job={OTHER}")
    curves = copying.locator("#curves")
    expect(curves.locator("canvas")).to_have_count(3, timeout=PATIENCE_MS)
    rows = table_of(curves)
    expect(rows).to_have_count(MOST_ROWS)
    expect(rows.first).to_contain_text(f"{STEPS - 1}")
    expect(curves.locator(".behind")).to_contain_text(f"{MOST_ROWS} of {STEPS} rows")
    lines = copied(copying, curves.locator(".behind").get_by_role("button", name="Copy table"))
    assert lines[0].startswith(f"| Step | loss: {JOB} | loss: {OTHER} | step time: {JOB} |")
    assert lines[1].startswith("| --- | ---: |")
    assert len(lines) == MOST_ROWS + 2
    assert lines[2].startswith(f"| {STEPS - 1} | ") and "| 36.00 s | 24.00 s |" in lines[2]


def test_a_curve_of_compared_runs_is_copied_and_saved(hours: Process, copying: Page) -> None:
    copying.goto(f"{hours.url}/compare?job={JOB}&job={OTHER}")
    menu = copying.locator("#curves .track", has_text="step time").locator(".menu")
    menu.locator("summary").focus()
    expect(menu.locator("summary")).to_have_attribute("aria-label", "Copy step time")
    copying.keyboard.press("Enter")
    copying.keyboard.press("Tab")
    expect(menu.get_by_role("button", name="Copy table")).to_be_focused()
    copying.keyboard.press("Enter")
    expect(menu.get_by_role("button", name="Copied")).to_be_visible()
    text = str(copying.evaluate("navigator.clipboard.readText()"))
    assert text.startswith(f"| Step | step time: {JOB} | step time: {OTHER} |\n")
    copying.keyboard.press("Escape")
    expect(menu.get_by_role("button", name="Copied")).to_be_hidden()
    expect(menu.locator("summary")).to_be_focused()
    name, picture = saved(copying, menu)
    assert name == f"{JOB}-{OTHER}-step-time.png"
    plot = copying.locator("#curves .track").first.bounding_box()
    assert plot is not None and picture.width > plot["width"]
    assert picture.height < 2 * plot["height"], "one track, its axis and its title"
    assert len(set(picture.get_flattened_data())) > 20, "lines and words are drawn"


def test_a_burn_down_has_a_table_and_is_copied(hours: Process, copying: Page) -> None:
    copying.goto(f"{hours.url}/slos?job={JOB}&name=goodput")
    burndown = copying.locator("#burndown")
    expect(burndown.locator("canvas")).to_be_visible(timeout=PATIENCE_MS)
    rows = table_of(burndown)
    expect(rows.first).to_contain_text("%")
    lines = copied(copying, burndown.locator(".behind").get_by_role("button", name="Copy table"))
    assert lines[0] == "| Time | budget left |"
    assert " UTC | " in lines[2] and lines[2].endswith("% |")
    name, _ = saved(copying, burndown.locator(".menu"))
    assert name == f"goodput-of-{JOB}-budget-left.png"


def test_an_incident_s_curve_has_a_table_and_is_copied(hours: Process, copying: Page) -> None:
    copying.goto(hours.url + incident_path(hours))
    curve = copying.locator("#curve")
    expect(curve.locator("canvas").first).to_be_visible(timeout=PATIENCE_MS)
    expect(table_of(curve).first).to_contain_text(" s")
    menu = curve.locator(".menu").first
    menu.locator("summary").click()
    lines = copied(copying, menu.get_by_role("button", name="Copy table"))
    assert lines[0].startswith("| Time | ") and len(lines) > 2
    copying.locator("h1").first.click()
    expect(menu.get_by_role("button").first).to_be_hidden()
    assert saved(copying, menu)[0].startswith(JOB)


def test_a_track_of_a_job_is_copied_and_saved(hours: Process, copying: Page) -> None:
    copying.goto(f"{hours.url}/jobs/{JOB}?range=all")
    tracks = copying.locator(".board .track")
    menu = tracks.filter(has_text="loss").locator(".menu")
    menu.locator("summary").click(timeout=PATIENCE_MS)
    lines = copied(copying, menu.get_by_role("button", name="Copy table"))
    assert lines[0] == "| Step | loss |" and lines[2].startswith(f"| {STEPS - 1} | ")
    assert saved(copying, tracks.filter(has_text="loss").locator(".menu"))[0] == f"{JOB}-loss.png"
    shares = tracks.filter(has_text="device-time").locator(".menu")
    shares.locator("summary").click()
    lines = copied(copying, shares.get_by_role("button", name="Copy table"))
    assert lines[0].startswith("| Step | productive |") and lines[0].count("|") >= SPENT_COLUMNS


def test_bars_of_days_have_a_table(hours: Process, copying: Page) -> None:
    copying.goto(f"{hours.url}/reports")
    days = copying.locator("#days")
    expect(days.locator("g").first).to_be_attached(timeout=PATIENCE_MS)
    rows = table_of(days)
    expect(rows.first).to_contain_text("device-h")
    expect(days.locator(".behind thead")).to_contain_text("productive")


def test_menus_are_labelled_and_fit_a_phone(hours: Process, browser: Browser) -> None:
    visitor = Visitor(browser, width=360, dark=True)
    page = visitor.page
    for path in (f"/jobs/{JOB}?range=all", f"/slos?job={JOB}&name=goodput"):
        page.goto(hours.url + path)
        page.locator(".menu summary").first.click(timeout=PATIENCE_MS)
        button = page.get_by_role("button", name="Copy table").first
        button.scroll_into_view_if_needed()
        expect(button).to_be_in_viewport(ratio=1)
        page.locator(".behind summary").click()
        expect(page.locator(".behind tbody tr").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert violations(page) == []
    assert visitor.errors == []
    page.close()
