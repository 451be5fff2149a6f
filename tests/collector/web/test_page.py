"""The page of a job in a real browser, over a real collector process."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from stepwatch.signals.records import CheckpointEvent, Kind, Link, ProcessState
from tests.browser import Visitor
from tests.collector.explained import store_explained
from tests.collector.gathered import gathering_run
from tests.collector.made import (
    JOB,
    checkpoint_rows,
    device_step_rows,
    link_rows,
    microbatch_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
    timing_rows,
)
from tests.collector.process import Process
from tests.collector.runtime.test_restart import eventful_run

from .shown import EXCESS, RANKS, SLOW_FROM, STEPS, evaluated, opened, send, straggling_run

UNWORDED = re.compile("NaN|undefined|null|Infinity")
PAINTED = """canvas => {
    const {width, height} = canvas;
    const data = canvas.getContext("2d").getImageData(0, 0, width, height).data;
    const rows = [0, 1, 2, 3].map(row => Math.floor((row + 0.5) * height / 4));
    const x = Math.floor(width * 0.9);
    return rows.map(y => [...data.slice(4 * (y * width + x), 4 * (y * width + x) + 3)].join());
}"""
"""The colours of all four ranks at nine tenths of the width: slow steps of rank 2."""


def all_text(page: Page) -> str:
    """All words of a page, opened sections included."""
    return page.locator("main").inner_text()


def test_the_first_screen_says_what_is_wrong_and_shows_it(
    straggling: Process, visitor: Visitor
) -> None:
    page = evaluated(straggling, visitor)
    sentence = page.locator(".verdict h1")
    expect(sentence).to_contain_text(f"rank 2 on node-0 is slow in forward since step {SLOW_FROM}")
    expect(sentence).to_contain_text(re.compile("[0-9]+% slower since [0-9:]+"))
    assert page.title().startswith("(1) ") or page.title().startswith("(2) ")
    expect(page.locator(".track")).to_have_count(4)
    matrix = page.locator("canvas.matrix")
    expect(matrix).to_be_visible()
    colours = matrix.evaluate(PAINTED)
    assert len({colours[row] for row in (0, 1, 3)}) < 3 and colours[2] not in colours[:2]
    tracks = [page.locator(f".track >> nth={index}").bounding_box() for index in range(4)]
    assert len({box["x"] for box in tracks if box}) == 1, "one axis for all"
    assert page.locator(".sign.bad").count() >= 1, "the incident is a mark on the axis"
    assert not UNWORDED.search(all_text(page))
    assert visitor.errors == []
    assert {url.split("/")[2] for url in visitor.requests if not url.startswith("data:")} == {
        straggling.url.removeprefix("http://")
    }


def test_the_matrix_is_read_with_keys_and_opens_a_rank(
    straggling: Process, visitor: Visitor
) -> None:
    page = evaluated(straggling, visitor)
    page.locator("canvas.matrix").focus()
    for key in ("ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("#cell")).to_have_text(re.compile("rank 2, step [0-9]+: [0-9]+ ms"))
    page.keyboard.press("Enter")
    drawer = page.locator("#drawer")
    expect(drawer).to_contain_text("Rank 2, step")
    expect(drawer).to_contain_text(re.compile("forward.*[0-9]+ ms peers [0-9.]+ ms", re.DOTALL))
    drawer.get_by_role("button", name="close").click()
    expect(drawer).to_have_count(0)
    assert visitor.errors == []


def test_the_address_holds_the_view(
    straggling: Process, visitor: Visitor, browser: Browser
) -> None:
    page = evaluated(straggling, visitor)
    page.get_by_role("button", name="by time").click()
    page.get_by_role("button", name="all", exact=True).click()
    page.get_by_label("Matrix").select_option("collective_wait")
    expect(page.locator("#cell")).to_contain_text("collective wait by rank")
    assert set(page.url.split("?")[1].split("&")) == {
        "axis=time",
        "range=all",
        "matrix=collective_wait",
    }
    plot = page.locator(".track .u-over").first
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 20, steps=4)
    page.mouse.up()
    expect(page.get_by_role("button", name="zoomed")).to_be_visible()
    address = page.url
    assert "from=" in address and "to=" in address
    again = browser.new_page()
    again.goto(address)
    expect(again.get_by_role("button", name="zoomed")).to_be_visible()
    expect(again.locator("#cell")).to_contain_text("collective wait by rank")
    again.close()
    page.get_by_role("button", name="zoomed").click()
    assert "from=" not in page.url
    assert visitor.errors == []


def test_a_picture_of_the_board_is_saved(straggling: Process, visitor: Visitor) -> None:
    page = evaluated(straggling, visitor)
    expect(page.locator("canvas.matrix")).to_be_visible()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Download picture").click()
    picture = Path(saving.value.path()).read_bytes()
    assert saving.value.suggested_filename == f"{JOB}.png"
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000


def test_the_curves_have_a_table(straggling: Process, visitor: Visitor) -> None:
    page = evaluated(straggling, visitor)
    page.get_by_text("Table of these curves").click()
    rows = page.locator(".board table tbody tr")
    expect(rows).to_have_count(STEPS)
    expect(rows.first).to_contain_text(str(STEPS - 1))


def test_an_incident_is_acknowledged_and_silenced(collector: Process, visitor: Visitor) -> None:
    send(collector, straggling_run())
    page = evaluated(collector, visitor)
    page.get_by_role("button", name="Acknowledge").click()
    page.get_by_label("Your name").fill("ada")
    page.locator("#respond form button").click()
    expect(page.locator(".verdict")).to_contain_text("acknowledged by ada")
    page.get_by_role("button", name="Silence…").click()
    assert page.get_by_label("Your name").input_value() == "ada", "asked for once"
    page.get_by_label("Reason").fill("known <b>host</b>")
    page.locator("#respond form button").click()
    expect(page.locator(".verdict")).to_contain_text("silenced by ada until")
    assert visitor.errors == []


def test_a_resume_is_shown_with_what_it_continued(collector: Process, visitor: Visitor) -> None:
    send(collector, eventful_run())
    visitor.page.goto(f"{collector.url}/jobs/{JOB}")
    opened(visitor.page, "attempts")
    words = "resumed from step 40: loss 4.630 → 4.580, continued; learning rate unknown"
    expect(visitor.page.locator("#attempts-table")).to_contain_text(words)
    assert visitor.errors == []


def test_the_breakdown_of_the_newest_steps_is_drawn(collector: Process, visitor: Visitor) -> None:
    send(collector, gathering_run())
    page = visitor.page
    page.goto(f"{collector.url}/jobs/{JOB}")
    opened(page, "time", "pipeline", "collectives", "slos", "checkpoints", "profiles")
    lines = page.locator("#collectives-table tbody tr")
    expect(lines).to_have_count(2)
    expect(lines.filter(has_text="ranks 2,3")).to_contain_text("rank 2 (100% of the skew)")
    expect(lines.filter(has_text="ranks 0,1")).to_contain_text("none")
    widths = [
        float(str(bar.get_attribute("width"))) for bar in page.locator("#step-time rect").all()
    ]
    assert sum(widths) == pytest.approx(100.0, abs=1.0)
    expect(page.locator("#step-time")).to_contain_text("arrival skew")
    expect(page.locator("#ranks tbody tr").first).to_contain_text("slowest")
    expect(page.locator("#stages tbody tr")).to_have_count(2)
    expect(page.locator("#what-if tbody tr")).to_have_count(3)
    expect(page.locator("#what-if tbody")).to_contain_text("without stragglers")
    expect(page.locator("#slos-table")).to_contain_text("too early")
    assert "spent" not in page.locator("#slos").inner_text()
    assert not UNWORDED.search(all_text(page))
    assert visitor.errors == []


def test_the_page_says_which_clock_timed_the_steps(collector: Process, visitor: Visitor) -> None:
    ranks = range(4)
    send(collector, run_segments(20))
    page = visitor.page
    page.goto(f"{collector.url}/jobs/{JOB}?matrix=device_idle")
    opened(page, "time")
    words = page.locator("#step-time-clock")
    expect(words).to_have_text("Timed on the host.")
    device = device_step_rows(range(20), ranks, idle={(1, "forward"): 0.04})
    tables = {Kind.LIFECYCLE: timing_rows(ranks), Kind.DEVICE_STEP: device}
    send(collector, [segment(100, tables)])
    expect(words).to_contain_text("Timed on the device (sim)")
    expect(words).to_contain_text("up to 5.0% of the step (forward 10 ms)")
    expect(page.locator("#cell")).to_contain_text("timed on the device")
    assert not UNWORDED.search(all_text(page))
    assert visitor.errors == []


def test_microbatches_are_drawn_and_their_absence_is_told(
    collector: Process, visitor: Visitor
) -> None:
    send(collector, run_segments(STEPS, RANKS))
    page = visitor.page
    page.goto(f"{collector.url}/jobs/{JOB}")
    opened(page, "pipeline")
    expect(page.locator("#pipeline")).to_contain_text("No step of a pipeline has been sampled yet")
    send(collector, [segment(99, {Kind.MICROBATCH: microbatch_rows(8, range(RANKS))})])
    drawn = page.locator("#microbatches")
    expect(drawn.locator("rect")).to_have_count(2 * 2 * 4)
    expect(drawn).to_contain_text("stage 1 · idle 7.7%")
    expect(drawn).to_contain_text("step 8, the newest sampled one, of 4 ranks")
    title = drawn.locator("rect title").nth(8)
    assert title.text_content() == (
        "stage 1, rank 2: forward of microbatch 0, 10 ms; idle for 10 ms before it"
    )
    assert visitor.errors == []


def test_the_fleet_leads_to_the_job(straggling: Process, visitor: Visitor) -> None:
    page = visitor.page
    page.goto(straggling.url)
    line = page.locator("#jobs tbody tr")
    expect(line).to_contain_text("rank 2 is slow in forward")
    expect(line).to_have_count(1)
    expect(line).to_contain_text("4")
    expect(line.locator(".state")).to_have_text(re.compile("degraded|unknown"))
    line.locator("a").first.click()
    expect(page.locator("canvas.matrix")).to_be_visible()
    assert visitor.errors == []


def test_the_incident_leads_to_its_runbook(straggling: Process, visitor: Visitor) -> None:
    page = evaluated(straggling, visitor)
    page.get_by_role("link", name="Open runbook").click()
    expect(page.locator("#page h1")).to_have_text("TrainingStraggler")
    expect(page.locator("#page")).to_contain_text(f"Job {JOB}, attempt 0: rank 2 on node-0")
    expect(page.locator("#page")).to_contain_text(straggling.url)
    assert visitor.errors == []


def test_tracked_runs_are_links_and_no_other_address_is(
    collector: Process, visitor: Visitor
) -> None:
    links = [
        Link("wandb", "abc", "https://wandb.example/runs/abc"),
        Link("mlflow", "def", "javascript:document.title='taken'"),
        Link("tensorboard", "<img src=x onerror=alert(1)>", ""),
    ]
    rows = np.concatenate([link_rows(link) for link in links])
    send(collector, [*run_segments(20), segment(100, {Kind.LIFECYCLE: rows})])
    visitor.page.goto(f"{collector.url}/jobs/{JOB}")
    line = visitor.page.locator("#tracked")
    expect(line).to_have_text(f"Tracked in: wandb abc, mlflow def, tensorboard {links[2].run}")
    expect(line.locator("a")).to_have_count(1)
    expect(line.locator("img")).to_have_count(0)
    link = line.get_by_role("link", name="abc")
    expect(link).to_have_attribute("href", links[0].url)
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    assert visitor.errors == []


def test_an_empty_collector_says_so(collector: Process, visitor: Visitor) -> None:
    visitor.page.goto(collector.url)
    expect(visitor.page.locator("#empty")).to_be_visible()
    assert visitor.errors == []


def test_a_rank_that_vanished_is_hatched_and_named(collector: Process, visitor: Visitor) -> None:
    exit_rows = state_rows([3], RANKS, STEPS * 0.2, STEPS)
    exit_rows["process_state"] = ProcessState.GONE
    more = step_rows(range(STEPS, STEPS + 5), [0, 1, 2], excess=EXCESS)
    failed = checkpoint_rows(CheckpointEvent.FAILED, [1], 50, b"disk full")
    tables = {Kind.STEP: more, Kind.RANK_STATE: exit_rows, Kind.CHECKPOINT: failed}
    send(collector, [*straggling_run(), segment(500, tables)])
    page = evaluated(collector, visitor)
    page.locator("canvas.matrix").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    expect(page.locator("#cell")).to_have_text(f"rank 3, step {STEPS + 4}: unknown")
    opened(page, "time", "checkpoints")
    absent = page.locator("#ranks tbody tr").filter(has_text="absent")
    expect(absent).to_contain_text("rank 3")
    expect(absent.locator(".s-bad")).to_have_text("gone")
    expect(page.locator("#checkpoints-table tbody")).to_contain_text("failed disk full")


def test_a_page_without_its_collector_says_so(collector: Process, visitor: Visitor) -> None:
    send(collector, straggling_run())
    page = evaluated(collector, visitor)
    expect(page.locator("#freshness")).to_have_text("live")
    collector.end()
    expect(page.locator("#freshness")).to_have_text("no answer from the collector")
    expect(page.locator(".outdated").first).to_be_visible()
    expect(page.locator(".notice").first).to_contain_text("the collector does not answer")
    collector.start()
    expect(page.locator("#freshness")).to_have_text("live")
    expect(page.locator(".outdated")).to_have_count(0)
    expect(page.locator(".verdict h1")).to_contain_text("rank 2")


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (700, False), (390, False), (360, False), (1280, True)]
)
def test_widths_and_grounds(
    straggling: Process, browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    visitor = Visitor(browser, width, dark)
    page = evaluated(straggling, visitor)
    expect(page.locator("canvas.matrix")).to_be_visible()
    opened(page, "incidents", "time", "pipeline", "collectives", "checkpoints", "slos", "attempts")
    expect(page.locator("#ranks")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    shot = page.screenshot(path=str(tmp_path / "page.png"), full_page=True)
    assert len(shot) > 20_000
    ground = str(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    brightness = sum(int(part) for part in ground.strip("rgb()").split(",")) / 3
    assert (brightness < 60) if dark else (brightness > 200)
    assert visitor.errors == []
    page.close()


def test_incidents_of_a_job_are_listed_under_their_state(tmp_path: Path, visitor: Visitor) -> None:
    store_explained(tmp_path / "store.db")
    process = Process(tmp_path, interval=3600.0)
    process.start()
    process.wait_ready()
    try:
        visitor.page.goto(f"{process.url}/jobs/{JOB}")
        opened(visitor.page, "incidents", "evidence")
        evidence = visitor.page.locator("#evidence")
        expect(evidence).to_contain_text("Symptoms grouped under this incident")
        expect(evidence).to_contain_text("straggler: rank 2 is slow")
        rows = visitor.page.locator("#incidents-table tbody tr")
        expect(rows.filter(has_text="rank 2 has more samples").first).to_be_visible()
        merged = rows.filter(has_text="merged").first
        expect(merged.locator("a")).to_have_attribute("href", re.compile("^/incidents/"))
        assert visitor.errors == []
    finally:
        process.end()
