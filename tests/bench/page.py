"""The job page in a real browser: its first paint, when it is drawn, and what an update costs.

Beside it TensorBoard with the same scalars, in the same browser. Each load has an empty cache; the
best of some counts: noise only adds. Time of the main thread is processor time, not wall time.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from playwright.sync_api import Browser, CDPSession
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from stepwatch.collector.web.page import routes
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import Kind, LifecycleEvent
from tests.browser import opened_browser
from tests.collector.made import body, lifecycle_rows, segment, state_rows, step_rows
from tests.ports import free_port
from tests.soak.processes import CLI, PYTHON, Collector, end, spawn

from .result import Result

LOADS = 5
WATCHED_SECONDS = 30.0
_SETTLED_SECONDS = 15.0
"""Until a simulated fleet has sent enough for every part of the page."""
FLEETS = {8: ("300 ms", "600 ms", "16 ms"), 16_384: ("1500 ms", "1500 ms", "50 ms")}
"""Budgets of first paint, of all parts drawn, and of the main thread for an update, by ranks."""
MILLION, SAME_STEPS = 1_000_000, 20_000
"""Steps of a long run, and of the run that TensorBoard shows, too."""
_STEPS_A_BODY = 20_000
SCALARS = ("loss", "step_seconds", "tokens_per_second")

_NOTED = """
window.drawn = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("nothing was drawn")), 120000);
    const look = () => {
        if (%s) requestAnimationFrame(() => resolve(performance.now()));
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
});
"""
"""Notes in which frame something is there."""
DRAWN = _NOTED % (
    "document.querySelector('.verdict h1') && document.querySelector('canvas.matrix')"
    " && document.querySelectorAll('.track canvas').length >= 3"
)
"""The sentence, the curves and the matrix are there: the page is its reader's to use."""
CHART = _NOTED % (
    "document.querySelector('scalar-card line-chart canvas, scalar-card line-chart svg path')"
    " && !document.querySelector('scalar-card mat-spinner')"
)
"""TensorBoard's first chart has its data."""


class Load(NamedTuple):
    """Milliseconds since the address was entered, and bytes of the heap after it."""

    painted_ms: float
    drawn_ms: float
    heap_bytes: float


class Watched(NamedTuple):
    """A tab that is left open: milliseconds of the main thread an update, the longest, bytes."""

    update_ms: float
    longest_ms: float
    minute_bytes: float


def measure() -> Iterator[Result]:
    """Measure fleets that run, then long runs, then TensorBoard."""
    with opened_browser() as browser:
        for ranks, budgets in FLEETS.items():
            with _simulated(ranks) as url:
                yield from _fleet_rows(browser, f"{url}/jobs/fleet", f"{ranks:,} ranks", budgets)
        with _collector() as (url, _folder):
            send_run(url, "long", MILLION)
            load = best(browser, f"{url}/jobs/long", DRAWN)
            yield from _load_rows(load, f"{MILLION:,} steps", ("1500 ms", "1500 ms"))
        yield from _beside(browser)
    yield Result("bundle, gzipped", f"{bundle_bytes() / 1000:.0f} kB", "120 kB", "all of it")


def _fleet_rows(
    browser: Browser, url: str, title: str, budgets: tuple[str, str, str]
) -> Iterator[Result]:
    yield from _load_rows(best(browser, url, DRAWN), title, budgets[:2])
    watched = watch(browser, url)
    yield Result(
        f"{title}: main thread for an update", f"{watched.update_ms:.1f} ms", budgets[2],
        f"longest task {watched.longest_ms:.0f} ms of wall time",
    )  # fmt: skip
    kilobytes = watched.minute_bytes / 1000
    yield Result(f"{title}: idle tab in a minute", f"{kilobytes:.0f} kB", "100 kB", "")


def _load_rows(load: Load, title: str, budgets: tuple[str, ...]) -> Iterator[Result]:
    heap = f"heap {load.heap_bytes / 1e6:.1f} MB"
    yield Result(f"{title}: first paint", f"{load.painted_ms:.0f} ms", budgets[0], "")
    yield Result(f"{title}: all parts drawn", f"{load.drawn_ms:.0f} ms", budgets[1], heap)


def _beside(browser: Browser) -> Iterator[Result]:
    with _collector() as (url, folder):
        send_run(url, "same", SAME_STEPS)
        own = best(browser, f"{url}/jobs/same", DRAWN)
        write_scalars(folder / "logs", SAME_STEPS)
        with _tensorboard(folder / "logs") as other_url:
            other = best(browser, f"{other_url}/?darkMode=false#timeseries", CHART)
    title = f"{len(SCALARS)} scalars of {SAME_STEPS:,} steps"
    yield Result(
        f"{title}: first chart", f"{own.drawn_ms:.0f} ms", "less than TensorBoard",
        f"TensorBoard {other.drawn_ms:.0f} ms, {other.drawn_ms / own.drawn_ms:.1f} times",
    )  # fmt: skip
    yield Result(
        f"{title}: heap of the tab", f"{own.heap_bytes / 1e6:.1f} MB", "less than TensorBoard",
        f"TensorBoard {other.heap_bytes / 1e6:.1f} MB, "
        f"{other.heap_bytes / own.heap_bytes:.1f} times",
    )  # fmt: skip


def best(browser: Browser, url: str, script: str) -> Load:
    """Return the best of some loads, each with an empty cache."""
    loads = [_load(browser, url, script) for _ in range(LOADS)]
    return Load(*(min(figures) for figures in zip(*loads, strict=True)))


def _load(browser: Browser, url: str, script: str) -> Load:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(script)
    page.goto(url)
    drawn = page.evaluate("window.drawn")
    painted = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    session = context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    load = Load(painted, drawn, _figure(session, "JSHeapUsedSize"))
    context.close()
    return load


def watch(browser: Browser, url: str) -> Watched:
    """Watch a tab of a job with a step a second; each step is an update."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(DRAWN)
    page.goto(url)
    page.evaluate("window.drawn")
    page.wait_for_timeout(5_000)
    page.evaluate(
        "window.longest = 0; new PerformanceObserver(list => list.getEntries().forEach(task => {"
        " window.longest = Math.max(window.longest, task.duration); })).observe({type: 'longtask'})"
    )
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    received = _counted(session)
    before = _figure(session, "TaskDuration")
    page.wait_for_timeout(WATCHED_SECONDS * 1000)
    spent = _figure(session, "TaskDuration") - before
    watched = Watched(
        1000 * spent / WATCHED_SECONDS,
        page.evaluate("window.longest"),
        sum(received) * 60 / WATCHED_SECONDS,
    )
    context.close()
    return watched


def _counted(session: CDPSession) -> list[float]:
    """Return a list to which the bytes of ended answers and of the stream come."""
    received: list[float] = []
    plain: set[str] = set()

    def asked(event: dict[str, Any]) -> None:
        if "/v1/events" not in event["request"]["url"]:
            plain.add(event["requestId"])

    def came(event: dict[str, Any]) -> None:
        # A stream never ends, and has been opened before; its parts are not compressed.
        if event["requestId"] not in plain:
            received.append(event["dataLength"])

    session.on("Network.requestWillBeSent", asked)
    session.on("Network.dataReceived", came)
    session.on("Network.loadingFinished", lambda event: received.append(event["encodedDataLength"]))
    session.send("Network.enable")
    return received


def _figure(session: CDPSession, name: str) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(item["value"] for item in metrics if item["name"] == name))


@contextmanager
def _collector() -> Iterator[tuple[str, Path]]:
    with tempfile.TemporaryDirectory() as name:
        collector = Collector(Path(name), "collector", str(Path(name) / "store.db"))
        try:
            collector.start()
            yield collector.url, Path(name)
        finally:
            collector.end(signal.SIGKILL)


@contextmanager
def _simulated(ranks: int) -> Iterator[str]:
    with _collector() as (url, folder):
        words = f"simulate --collector {url} --ranks {ranks} --step-seconds 1 --seconds 400"
        sender = spawn(folder / "fleet.log", *CLI, *words.split(), "--job", "fleet")
        try:
            time.sleep(_SETTLED_SECONDS)
            yield url
        finally:
            end(sender, signal.SIGKILL)


@contextmanager
def _tensorboard(logs: Path) -> Iterator[str]:
    port = free_port()
    words = f"-m tensorboard.main --port {port} --host 127.0.0.1 --load_fast false"
    log = logs.parent / "tensorboard.log"
    process = spawn(log, PYTHON, *words.split(), "--logdir", str(logs))
    url = f"http://127.0.0.1:{port}"
    try:
        _until(lambda: SCALARS[-1] in httpx.get(f"{url}/data/plugin/scalars/tags").text)
        yield url
    finally:
        end(process, signal.SIGKILL)


def _until(holds: Callable[[], bool]) -> None:
    while True:
        try:
            if holds():
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)


def send_run(url: str, job: str, steps: int, first_step: int = 0) -> None:
    """Send a run of one rank, a step a second, that has just come to its last step.

    The steps before `first_step` were never received.
    """
    clock = ClockPair(0, round((time.time() - steps) * NANOSECONDS))
    with httpx.Client(timeout=120.0) as client:
        for first in range(first_step, steps, _STEPS_A_BODY):
            numbers = range(first, min(first + _STEPS_A_BODY, steps))
            tables = {
                Kind.STEP: step_rows(numbers, [0], 1.0),
                Kind.RANK_STATE: state_rows([0], 1, float(numbers[-1] + 1), numbers[-1]),
            }
            if first == first_step:
                tables[Kind.LIFECYCLE] = lifecycle_rows(LifecycleEvent.START, [0], 1)
            sent = segment(first // _STEPS_A_BODY + 1, tables, job)._replace(clock=clock)
            client.post(f"{url}/v1/segments", content=body([sent])).raise_for_status()
    _until(lambda: httpx.get(f"{url}/v1/jobs/{job}").json().get("step") == steps - 1)


def write_scalars(logs: Path, steps: int) -> None:
    """Write the scalars of `send_run` as a trainer with TensorBoard's writer does."""
    writer = EventFileWriter(str(logs))
    for step in range(steps):
        numbers = (5.0 - step / 100, 1.0, 100.0)
        values = [
            Summary.Value(tag=tag, simple_value=number)
            for tag, number in zip(SCALARS, numbers, strict=True)
        ]
        writer.add_event(Event(wall_time=float(step), step=step, summary=Summary(value=values)))
    writer.close()


def bundle_bytes() -> int:
    """Return the bytes of all parts of the page, gzipped."""
    built = Path(str(routes.__file__)).parent / "built"
    return sum(path.stat().st_size for path in built.glob("*.gz"))
