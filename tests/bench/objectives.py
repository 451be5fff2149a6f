"""SLO evaluation in bulk, by length of a job's history; and a month's report over many jobs."""

from __future__ import annotations

import contextlib
import io
import itertools
import statistics
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest

from stepwatch.cli.main import main
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.asked.openslo import default_slos
from stepwatch.collector.slo.asked.site import Objectives, read_objectives
from stepwatch.collector.slo.objectives import evaluate_slo
from stepwatch.collector.slo.slice_line import SliceLine
from stepwatch.collector.store import Store
from stepwatch.collector.store.slices import SLICE, SLICE_SECONDS, Slice
from stepwatch.collector.web.metrics import JobExporter
from tests.cli.report.month import FIRST_DAY, month
from tests.collector.made import HandClock, body, run_segments

from .result import Result

SLOS, WINDOWS, JOBS = 10_000, 8, 1_000
_MANY_JOBS, _MANY_SLOS = 500, 16
_DAY = 86_400
_SLOS_A_LINE = 200
"""SLOs of one job: together the jobs have `SLOS`."""


def measure() -> Iterator[Result]:
    """Measure a day and a month of history, then the report."""
    first: float | None = None
    for days in (1, 30):
        seconds, lone = _windows(days)
        first = first or seconds
        comparison = f"{seconds / first:.2f} x that of a day; "
        comparison += f"an SLO with its budget {lone * 1e6:.0f} us"
        yield Result(
            f"{SLOS:,} SLOs x {WINDOWS} windows over {days} day(s) of history",
            f"{seconds:.2f} s", "1 s", comparison,
        )  # fmt: skip
    yield _report()
    yield from _series()


def _windows(days: int) -> tuple[float, float]:
    """Return the processor seconds of all windows, and of one SLO with its state and budget."""
    now_s = float(FIRST_DAY + days * _DAY)
    lines = [_line(days, seed) for seed in range(SLOS // _SLOS_A_LINE)]
    spans = np.geomspace(300, 28 * _DAY, WINDOWS).tolist()
    spent = []
    for _ in range(3):
        began = time.process_time()
        for line in lines:
            for _ in range(_SLOS_A_LINE):
                for seconds in spans:
                    line.window(now_s, seconds)
        spent.append(time.process_time() - began)
    slo = next(shipped for shipped in default_slos() if shipped.limit is None)
    slos = [
        slo._replace(target=slo.target - Decimal(number) / 10_000) for number in range(_SLOS_A_LINE)
    ]
    began = time.process_time()
    for line in lines:
        for objective in slos:
            evaluate_slo(objective, line, now_s)
    return statistics.median(spent), (time.process_time() - began) / SLOS


def _line(days: int, seed: int) -> SliceLine:
    """Return slices of ten seconds: 64 devices, a share of them good."""
    random, count = np.random.default_rng(seed), days * _DAY // SLICE_SECONDS
    rows = np.zeros(count, dtype=SLICE)
    rows["start_s"] = FIRST_DAY + np.arange(count) * SLICE_SECONDS
    rows["seconds"] = SLICE_SECONDS
    rows["total"] = 64.0 * SLICE_SECONDS
    rows["good"] = rows["total"] - random.integers(0, 1_000_000, count) / 1e6
    for name in ("good", "total"):
        rows[f"cumulative_{name}"] = np.cumsum(rows[name])
    rows["observed"] = rows["expected"] = 64
    return SliceLine.of_rows(rows)


def _series() -> Iterator[Result]:
    """Count the /metrics lines of jobs with an open incident, with the shipped SLOs and with
    sixteen."""
    for jobs, objectives, words, budget in (
        (1, read_objectives(), "the shipped SLOs", "60"),
        (_MANY_JOBS, many_objectives(), f"{_MANY_SLOS} SLOs each", "50,000"),
    ):
        text, seconds = export(jobs, objectives, jobs)
        series = sum('job_name="' in line for line in text.splitlines())
        yield Result(
            f"series of {jobs} job(s) with {words}", f"{series:,}", budget,
            f"{series / jobs:.0f} a job; one scrape {seconds:.2f} CPU-s",
        )  # fmt: skip


def many_objectives() -> Objectives:
    """Return sixteen SLOs: the shipped ones repeated under other names."""
    shipped = itertools.cycle(read_objectives().slos.values())
    slos = {
        f"{slo.name}-{number}": slo for number, slo in zip(range(_MANY_SLOS), shipped, strict=False)
    }
    return Objectives({name: slo._replace(name=name) for name, slo in slos.items()})


def export(jobs: int, objectives: Objectives, slow: int) -> tuple[str, float]:
    """Return `/metrics` of jobs, `slow` of which have a slow rank, and a scrape's processor
    seconds."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.sqlite(Path(folder) / "store.db")
        service = Service(store, HandClock(30.0), objectives=objectives)
        for job in range(jobs):
            excess = {(2, "forward"): 0.2} if job < slow else {}
            service.receive(body(run_segments(60, excess=excess, slow_from=40, job=f"job-{job}")))
        service.evaluate()
        registry = CollectorRegistry()
        registry.register(JobExporter(service))
        began = time.process_time()
        text = generate_latest(registry).decode()
        seconds = time.process_time() - began
        store.close()
    return text, seconds


def _coarse() -> Iterator[Slice]:
    """Yield a month in slices of four hours: a sum depends little on their number."""
    for number in range(180):
        start, good, total = FIRST_DAY + number * 14_400, 900_000.0, 921_600.0
        good_so_far, total_so_far = good * (number + 1), total * (number + 1)
        yield Slice(start, 1, good, total, 4, 4, good_so_far, total_so_far, 14_400)


def _report() -> Result:
    """Measure the wall time of the whole command after the interpreter's start."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        store = Store.sqlite(path)
        store.save_evaluation("any", [], [], days=month(JOBS, ("production", "research")))
        for job in range(JOBS):
            rows = [(sli, part) for sli in ("goodput", "step-time") for part in _coarse()]
            store.save_evaluation(f"pretrain-{job:03}", rows, [])
        store.close()
        words = ["report", "--since", time.strftime("%Y-%m-%d", time.gmtime(FIRST_DAY))]
        words += ["--store", str(path), "--html", str(Path(folder) / "month.html"), "--json"]
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            main(words)
        seconds = time.perf_counter() - began
    return Result(
        f"report of a month over {JOBS:,} jobs, from SQLite, as JSON and HTML",
        f"{seconds:.1f} s", "5 s", "the store opened for it; SLOs with their trend",
    )  # fmt: skip
