"""The page in a real browser, over a real collector process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from stepwatch.collector.quantities import device_time, quantity
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

from .shown import EXCESS, PATIENCE_MS, RANKS, SLOW_FROM, STEPS, evaluated, send, straggling_run

SELDOM = """
const soon = window.setTimeout;
for (let old = soon(() => 0); old > 0; old--) clearTimeout(old);
window.setTimeout = (call, ms) => soon(call, 30 * ms);
"""
"""The page asks anew once in a minute, and not every two seconds."""


def test_heatmap_and_incident(straggling: Process, visitor: Visitor) -> None:
    page = evaluated(straggling, visitor)
    cells = page.locator("#heatmap rect.cell")
    expect(cells).to_have_count(STEPS * RANKS)
    fills = [cell.get_attribute("fill") for cell in cells.all()]
    slow = set(fills[2 * STEPS + SLOW_FROM : 3 * STEPS])
    other_fills = set(fills) - slow
    assert len(slow) == 1 and other_fills, "the slow cells, and they alone, stand out"
    assert slow.isdisjoint(fills[: 2 * STEPS + SLOW_FROM] + fills[3 * STEPS :])
    expect(page.locator("#heatmap rect.cell-unknown")).to_have_count(0)
    incident = page.locator(".incident.open").filter(has_text="straggler")
    headline = incident.locator(".headline")
    expect(headline).to_contain_text(f"rank 2 is slow in forward since step {SLOW_FROM}")
    expect(incident.locator("code")).to_contain_text("stepwatch runbook TrainingStraggler")
    expect(page.locator("#title")).to_have_text(JOB)
    expect(page.locator("#facts .state")).to_have_text("degraded")
    expect(page.locator("#slos tbody tr")).to_contain_text("too early")
    assert "spent" not in page.locator("#slos").inner_text()
    assert "NaN" not in page.locator("main").inner_text()
    assert "undefined" not in page.locator("main").inner_text()
    assert visitor.errors == []
    assert {url.split("/")[2] for url in visitor.requests if not url.startswith("data:")} == {
        straggling.url.removeprefix("http://")
    }


def test_a_resume_is_shown_with_what_it_continued(collector: Process, visitor: Visitor) -> None:
    send(collector, eventful_run())
    visitor.page.goto(f"{collector.url}/jobs/{JOB}")
    words = "Attempt 1 resumed from step 40: loss 4.630 → 4.580, continued; learning rate unknown"
    expect(visitor.page.locator("#resume")).to_contain_text(words)
    assert visitor.errors == []


def test_the_breakdown_of_the_newest_steps_is_drawn(collector: Process, visitor: Visitor) -> None:
    send(collector, gathering_run())
    page = visitor.page
    page.goto(f"{collector.url}/jobs/{JOB}")
    lines = page.locator("#collectives tbody tr")
    expect(lines).to_have_count(2)
    expect(lines.filter(has_text="ranks 2,3")).to_contain_text("rank 2 (100% of the skew)")
    expect(lines.filter(has_text="ranks 0,1")).to_contain_text("none")
    widths = [
        float(str(bar.get_attribute("width"))) for bar in page.locator("#step-time rect").all()
    ]
    total_width = page.locator("#step-time svg").evaluate(
        "picture => picture.viewBox.baseVal.width"
    )
    assert sum(widths) == pytest.approx(total_width, abs=9)
    expect(page.locator("#step-time-legend")).to_contain_text("arrival skew")
    expect(page.locator("#stages tbody tr")).to_have_count(2)
    expect(page.locator("#what-if tbody tr")).to_have_count(3)
    expect(page.locator("#what-if tbody")).to_contain_text("without stragglers")
    text = page.locator("main").inner_text()
    assert not re.search("NaN|undefined|null|Infinity", text)
    assert visitor.errors == []


def test_the_page_says_which_clock_timed_the_steps(collector: Process, visitor: Visitor) -> None:
    ranks = range(4)
    segments = run_segments(20)
    send(collector, segments)
    page = visitor.page
    page.goto(f"{collector.url}/jobs/{JOB}")
    expect(page.locator("#step-time-clock")).to_have_text("Timed on the host.")
    device = device_step_rows(range(20), ranks, idle={(1, "forward"): 0.04})
    tables = {Kind.LIFECYCLE: timing_rows(ranks), Kind.DEVICE_STEP: device}
    send(collector, [segment(100, tables)])
    words = page.locator("#step-time-clock")
    expect(words).to_contain_text("Timed on the device (sim)")
    expect(words).to_contain_text("up to 5.0% of the step (forward 10 ms)")
    page.locator("#metric").select_option("device_idle")
    expect(page.locator("#legend")).to_contain_text("timed on the device")
    assert not re.search("NaN|undefined|null", page.locator("main").inner_text())
    assert visitor.errors == []


def test_microbatches_are_drawn_and_their_absence_is_told(
    collector: Process, visitor: Visitor
) -> None:
    send(collector, run_segments(STEPS, RANKS))
    page = visitor.page
    page.goto(f"{collector.url}/jobs/{JOB}")
    drawn = page.locator("#microbatches")
    expect(drawn).to_contain_text("No step of a pipeline has been sampled yet")
    send(collector, [segment(99, {Kind.MICROBATCH: microbatch_rows(8, range(RANKS))})])
    expect(drawn.locator("rect")).to_have_count(2 * 2 * 4)
    expect(drawn).to_contain_text("stage 1 · idle 7.7%")
    expect(page.locator("#microbatches-span")).to_have_text(
        "step 8, the newest sampled one, of 4 ranks"
    )
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
    expect(page.locator("#heatmap rect.cell").first).to_be_visible()
    assert visitor.errors == []


def test_the_incident_leads_to_its_runbook(straggling: Process, visitor: Visitor) -> None:
    page = evaluated(straggling, visitor)
    page.locator(".incident.open", has_text="rank 2 is slow").locator("a").click()
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
    expect(line.locator("*")).to_have_count(1)
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
    expect(page.locator("#heatmap rect.cell-unknown")).to_have_count(5)
    expect(page.locator("#heatmap rect.cell")).to_have_count(STEPS * RANKS + 15)
    hatched = page.locator("#heatmap rect.cell-unknown").first
    assert "unknown" in str(hatched.evaluate("cell => getComputedStyle(cell).fill"))
    expect(page.locator("#phases text.anomalous")).to_have_text("rank 3 · stage 1 · gone")
    expect(page.locator("#checkpoints tbody")).to_contain_text("failed disk full")


def test_another_metric_is_drawn_at_once(straggling: Process, visitor: Visitor) -> None:
    page = evaluated(straggling, visitor)
    first = page.locator("#heatmap rect.cell").first
    seconds_before = first.get_attribute("data-seconds")
    page.evaluate(SELDOM)
    page.select_option("#metric", "collective_wait")
    expect(first).not_to_have_attribute(
        "data-seconds", str(seconds_before), timeout=PATIENCE_MS / 2
    )


def test_a_page_without_its_collector_says_so(collector: Process, visitor: Visitor) -> None:
    send(collector, straggling_run())
    page = evaluated(collector, visitor)
    expect(page.locator("#freshness")).to_contain_text("updated")
    collector.end()
    expect(page.locator("#freshness")).to_contain_text("stale since")
    expect(page.locator("body")).to_have_class("outdated")
    collector.start()
    expect(page.locator("#freshness")).to_contain_text("updated")
    expect(page.locator("body")).not_to_have_class("outdated")
    expect(page.locator(".incident.open .headline").first).to_be_visible()


@pytest.mark.parametrize(
    ("width", "dark"), [(1280, False), (700, False), (390, False), (1280, True)]
)
def test_widths_and_grounds(
    straggling: Process, browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    visitor = Visitor(browser, width, dark)
    page = evaluated(straggling, visitor)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    label = page.locator("#heatmap text").first
    assert float(label.evaluate("text => text.getBoundingClientRect().height")) >= 10
    shot = page.screenshot(path=str(tmp_path / "page.png"), full_page=True)
    assert len(shot) > 20_000
    ground = str(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    brightness = sum(int(part) for part in ground.strip("rgb()").split(",")) / 3
    assert (brightness < 60) if dark else (brightness > 200)
    assert visitor.errors == []
    page.close()


def test_symptoms_stand_under_their_cause(tmp_path: Path, visitor: Visitor) -> None:
    store_explained(tmp_path / "store.db")
    process = Process(tmp_path, interval=3600.0)
    process.start()
    process.wait_ready()
    try:
        visitor.page.goto(f"{process.url}/jobs/{JOB}")
        cause = visitor.page.locator(".incident", has_text="rank 2 has more samples")
        expect(cause.locator(".symptoms li").first).to_contain_text("straggler: rank 2 is slow")
        merged = visitor.page.locator(".incident.merged")
        merged.locator("a", has_text="incident").first.click()
        assert visitor.page.url.split("#")[1] == cause.get_attribute("id")
        assert visitor.errors == []
    finally:
        process.end()


def test_long_evidence_stays_on_a_narrow_screen_and_commands_break_between_words(
    straggling: Process, browser: Browser
) -> None:
    visitor = Visitor(browser, 700)
    page = evaluated(straggling, visitor)
    stack = " < ".join(f"Stage.forward_one_chunk pipelining/stage.py:{line}" for line in range(12))
    reported = {"name": "Python line", "text": "models/llama/attention_kernels.py:1035 in forward"}
    # In one go: two seconds later the page draws what the collector says again.
    width, words, command = page.evaluate(
        """async row => {
            const view = await (await fetch("/v1/jobs/" + job)).json();
            drawIncidents(view.incidents.map(each => ({ ...each, evidence: [row] })));
            const command = document.querySelector(".incident .command");
            return [document.documentElement.scrollWidth,
                [...command.children].map(word => word.textContent), command.textContent];
        }""",
        {**reported, "value": None, "unit": "", "against": stack},
    )
    assert width <= 700
    assert " ".join(words) == command
    assert words[:2] == ["stepwatch", "runbook"] and words[3] == "--incident"
    visitor.page.close()


@pytest.fixture(scope="module")
def fleet_page(straggling: Process, browser: Browser) -> Iterator[Page]:
    """A page with the scripts that word values, loaded once for all of them."""
    page = browser.new_page()
    page.goto(f"{straggling.url}/nodes")
    yield page
    page.close()


@pytest.mark.parametrize(
    ("value", "unit"),
    [
        (0.0, "seconds"),
        (0.000068, "seconds"),
        (0.6871, "seconds"),
        (0.9996, "seconds"),
        (61.5, "seconds"),
        (744.0, "seconds"),
        (11_520.0, "seconds"),
        (0.452, "seconds ago"),
        (67_108_864.0, "bytes"),
        (1.5e6, "bytes_per_second"),
        (0.54, "ratio"),
        (3.0, "ranks"),
        (1.0, "ranks"),
        (1.0, "steps"),
        (1.0, "CPUs"),
        (0.0213, "per second"),
        (20_480.0, "tokens"),
        (25.0, "step"),
        (48_879.0, "digest"),
        (-9.0, ""),
        (None, "bytes"),
    ],
)
def test_the_page_words_a_value_as_the_command_line_does(
    fleet_page: Page, value: float | None, unit: str
) -> None:
    worded = fleet_page.evaluate("([value, unit]) => measure(value, unit)", [value, unit])
    assert worded == quantity(value, unit)
    assert fleet_page.evaluate("value => deviceTime(value)", value) == device_time(value)
