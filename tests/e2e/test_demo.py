"""`stepwatch demo` end to end, with the output that a user reads and the pages that a user
opens."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, sync_playwright

from tests.e2e.demos import DemoRun, run_demo

from .conftest import Site

pytestmark = pytest.mark.long(
    "tests/e2e/test_demo_ends.py::test_a_short_run_reports_real_numbers",
    "tests/verdicts/device/test_runs.py::test_a_slow_device_is_named_by_its_own_clock_alone",
    "tests/collector/web/test_page.py::test_the_first_screen_says_what_is_wrong_and_shows_it",
    "tests/runbooks/test_commands.py::test_every_stepwatch_command_of_a_page_runs",
)

SLOWED_STEPS = 48
CHROMIUM = "/usr/bin/chromium"
CHROMIUM_WORDS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
]


@pytest.fixture(scope="module")
def demo_with_slow_rank(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """Run a demo in which rank 1 is slow from step 14 on.

    The run is long enough that rank 1 is slowest in most steps, whichever is slowest at first.
    """
    folder = tmp_path_factory.mktemp("slowed")
    return run_demo(folder, "--fault", "slow-compute:rank=1,step=14", steps=SLOWED_STEPS)


def test_the_slowed_rank_and_no_other_is_named(demo_with_slow_rank: DemoRun) -> None:
    (incident,) = demo_with_slow_rank.report["incidents"]
    named = {key: incident[key] for key in ("kind", "rank", "phase", "cause", "since_step")}
    assert named == {
        "kind": "straggler",
        "rank": 1,
        "phase": "forward",
        "cause": "slow-compute",
        "since_step": 14,
    }
    assert incident["runbook"] == "TrainingStraggler"
    assert incident["detected_after_seconds"] > 0
    assert (
        "INCIDENT straggler: rank 1 is slow in forward since step 14" in demo_with_slow_rank.output
    )


def test_the_report_has_its_keys_and_real_numbers(demo_with_slow_rank: DemoRun) -> None:
    report = demo_with_slow_rank.report
    assert report["loss_last"] < report["loss_first"] < 6.0
    assert report["tokens_per_second"] > 0
    quantiles = report["step_seconds"]
    assert 0 < quantiles["p50"] <= quantiles["p95"] <= quantiles["p99"]
    assert [rank["rank"] for rank in report["ranks"]] == [0, 1, 2, 3]
    assert [rank["stage"] for rank in report["ranks"]] == [0, 0, 1, 1]
    for rank in report["ranks"]:
        waits = rank["collective_wait_share"] + rank["pipeline_wait_share"]
        assert sum(rank["phase_share"].values()) + waits == pytest.approx(1.0, abs=0.02)
    assert report["checkpoints"]
    assert all(item["verified"] and item["stall_seconds"] > 0 for item in report["checkpoints"])
    assert [slo["name"] for slo in report["slos"]] == ["goodput"]


def test_the_parts_of_the_steps_add_up_and_the_slow_rank_is_waited_for(
    demo_with_slow_rank: DemoRun,
) -> None:
    store = ("--store", str(demo_with_slow_rank.folder / "store.db"))
    words = [sys.executable, "-m", "stepwatch.cli", "status", "demo", "--json", *store]
    ran = subprocess.run(words, capture_output=True, text=True)
    job = json.loads(ran.stdout)
    parts = job["step_time_breakdown"]
    assert sum(parts["seconds"].values()) == pytest.approx(parts["step_seconds"], rel=1e-6)
    assert abs(parts["ratio"]["unaccounted"]) < 0.02
    assert parts["ratio"]["collective_unsplit"] < 0.02
    assert parts["seconds"]["transfer"] > 0 and parts["seconds"]["arrival_skew"] > 0
    (incident,) = job["incidents"]
    assert any(row["name"].startswith("made others wait in") for row in incident["evidence"])
    faster = {item["scenario"]: item["faster_ratio"] for item in job["what_if"]}
    assert faster["without stragglers"] > max(faster["with perfect overlap"], 0.1)
    sample = job["microbatches"]
    assert sample["ranks"] == 4, "every rank reported all its chunks of the sampled step"
    assert [stage["ranks"] for stage in sample["stages"]] == [2, 2]
    assert all(stage["busy_seconds"] > 0 for stage in sample["stages"])


def test_a_healthy_run_raises_nothing(tmp_path: Path) -> None:
    ran = run_demo(tmp_path, "--fault", "none")
    assert ran.report["incidents"] == []
    assert ran.report["loss_last"] < ran.report["loss_first"]
    assert "no incident" in ran.output


@pytest.mark.matrix  # a hang is named in every run by tests/hangs and tests/verdicts/test_site.py
def test_a_hang_names_the_rank_that_did_not_arrive(tmp_path: Path) -> None:
    ran = run_demo(tmp_path, "--fault", "hang:rank=3,step=12")
    (incident,) = ran.report["incidents"]
    assert (incident["kind"], incident["rank"], incident["phase"]) == ("pause", 3, "forward")
    assert (incident["since_step"], incident["runbook"]) == (12, "TrainingPause")


def test_the_runbook_comes_with_the_values_of_the_incident(demo_with_slow_rank: DemoRun) -> None:
    (incident,) = demo_with_slow_rank.report["incidents"]
    store = ("--store", str(demo_with_slow_rank.folder / "store.db"))
    words = ("runbook", incident["runbook"], "--incident", incident["id"], *store)
    ran = subprocess.run(
        [sys.executable, "-m", "stepwatch.cli", *words], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert (
        f"stepwatch incidents --collector http://127.0.0.1:8480 --id {incident['id']}" in ran.stdout
    )
    assert "rank 1" in ran.stdout and "{rank}" not in ran.stdout and "{node}" not in ran.stdout


@pytest.fixture(scope="module")
def page_site(
    demo_with_slow_rank: DemoRun, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A collector on the store that the demo left."""
    site = Site(tmp_path_factory.mktemp("page"))
    site.store_path = demo_with_slow_rank.folder / "store.db"
    site.start_collector()
    yield site
    site.close()


def test_the_page_shows_curves_and_incident_in_a_browser(page_site: Site, tmp_path: Path) -> None:
    messages: list[ConsoleMessage] = []
    failures: list[object] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_WORDS)
        page = browser.new_page()
        page.on("console", lambda message: messages.append(message))
        page.on("pageerror", lambda error: failures.append(error))
        page.goto(f"{page_site.url}/jobs/demo")
        page.wait_for_selector("canvas.matrix")
        verdict = page.locator(".verdict").inner_text()
        tracks = page.locator(".track").count()
        page.screenshot(path=tmp_path / "job.png", full_page=True)
        browser.close()
    assert tracks >= 3, "loss, step time, and where device-time goes"
    assert verdict.startswith(f"Finished at step {SLOWED_STEPS - 1}")
    words = "the costliest: .* slower since .*: rank 1 on .* is slow in forward since step 14"
    assert re.search(words, verdict)
    assert [message.text for message in messages if message.type == "error"] == []
    assert failures == []
    assert (tmp_path / "job.png").stat().st_size > 10_000
