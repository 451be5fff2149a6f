"""A real collector's history of a hard job: values that are no numbers, restarts, a wrong clock."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import Kind, LifecycleEvent
from stepwatch.signals.wire import Segment
from tests.collector.made import body, lifecycle_rows, run_segments, segment, state_rows
from tests.collector.process import Process
from tests.collector.state.trackers.metrics.test_metrics import metric_rows, name_rows
from tests.waiting import until

JOB, AHEAD = "one-rank", "clock-ahead"
STEPS, SECONDS, RESUMED = 40, 0.2, 20
VALUES = [math.nan, math.inf, -math.inf, *(step / 10 for step in range(3, STEPS))]
HOUR_NS = 3600 * NANOSECONDS


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """One that was killed and started again after it had received all."""
    process = Process(tmp_path_factory.mktemp("collector"))
    process.start()
    process.wait_ready()
    for job, segments in ((JOB, hard_run()), (AHEAD, run_segments(STEPS, 1, SECONDS, job=AHEAD))):
        send(process, segments, HOUR_NS if job == AHEAD else 0)
    before = {path: answer(process, path) for path in PATHS}
    process.end()
    process.start()
    process.wait_ready()
    until("the job to be back", lambda: answer(process, "series")["attempt"] == 1, 60.0)
    assert {path: answer(process, path) for path in PATHS} == before
    yield process
    process.end()


PATHS = (
    "series",
    "series?attempt=0",
    "series?metric=bleu&metric=accuracy",
    "spent",
    "marks",
    "matrix",
)


def hard_run() -> list[Segment]:
    """A run of one rank that records a metric, evaluates, and begins again without a step."""
    segments = run_segments(STEPS, 1, SECONDS, job=JOB)
    names = {1: "bleu", 2: "tokens_per_second"}
    named = np.concatenate(
        [name_rows(names, [0]), name_rows({3: "accuracy"}, [0], "ratio", "test")]
    )
    recorded = [metric_rows(step, [value], 1, SECONDS) for step, value in enumerate(VALUES)]
    recorded.append(metric_rows(3, [7.0], 2, SECONDS))
    recorded.append(metric_rows(10, [0.5], 3, SECONDS, evaluated=True))
    rows = {Kind.METRIC_NAME: named, Kind.METRIC: np.concatenate(recorded)}
    again = [
        lifecycle_rows(event, [0], value, STEPS * SECONDS + 1)
        for event, value in ((LifecycleEvent.START, 1), (LifecycleEvent.RESUME, RESUMED))
    ]
    states = state_rows([0], 1, STEPS * SECONDS + 1)
    begun = {Kind.LIFECYCLE: np.concatenate(again), Kind.RANK_STATE: states}
    return [*segments, segment(99, rows, JOB), segment(1, begun, JOB, attempt=1)]


def send(process: Process, segments: list[Segment], ahead_ns: int) -> None:
    began = time.time_ns() - round((STEPS + 5) * SECONDS * NANOSECONDS) + ahead_ns
    clocked = [item._replace(clock=ClockPair(0, began)) for item in segments]
    verdicts = process.send(body(clocked)).json()["verdicts"]
    assert {item["verdict"] for item in verdicts} == {"accepted"}


def answer(process: Process, path: str, job: str = JOB) -> Any:
    """The strict JSON of an answer, without what changes by itself."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    read = httpx.get(f"{process.url}/v1/jobs/{job}/{path}", timeout=30.0)
    assert read.status_code == 200, read.text
    document = json.loads(read.text, parse_constant=refuse)
    return {name: document[name] for name in document if name not in ("as_of", "state", "stale")}


def curves(document: Any) -> dict[str, Any]:
    return {curve["name"]: curve for curve in document["series"]}


def test_redone_steps_are_left_out(collector: Process) -> None:
    drawn = curves(answer(collector, "series"))
    assert drawn["loss"]["step"] == drawn["step_seconds"]["step"] == [*range(RESUMED)]
    assert {*drawn["loss"]["attempt"]} == {0}


def test_an_attempt_s_curves_have_the_steps_that_a_later_one_repeats(collector: Process) -> None:
    drawn = curves(answer(collector, "series?attempt=0"))
    assert drawn["loss"]["step"] == drawn["step_seconds"]["step"] == [*range(STEPS)]
    assert {*drawn["loss"]["attempt"]} == {0}
    for attempt in (1, 7):
        drawn = curves(answer(collector, f"series?attempt={attempt}"))
        assert drawn["loss"]["step"] == drawn["step_seconds"]["step"] == []


def test_numbers_that_are_none_are_counted_and_null(collector: Process) -> None:
    bleu = curves(answer(collector, "series?metric=bleu"))["bleu"]
    assert bleu["mean"][:4] == [None, None, None, 0.3]
    assert bleu["last"][:4] == [None, None, None, 0.3]
    assert bleu["non_finite"] == [1, 1, 1, *[0] * (RESUMED - 3)]


def test_a_metric_with_a_name_of_the_collectors_own_is_apart(collector: Process) -> None:
    names = "series?metric=tokens_per_second&metric=recorded/tokens_per_second"
    own, recorded = curves(answer(collector, names)).values()
    assert own["unit"] == "tokens/s" and own["mean"][0] == pytest.approx(100 / SECONDS, rel=0.01)
    assert (recorded["step"], recorded["mean"]) == ([3], [7])


def test_an_evaluation_is_a_curve_and_a_mark(collector: Process) -> None:
    accuracy = curves(answer(collector, "series?metric=accuracy"))["accuracy"]
    assert (accuracy["evaluation"], accuracy["unit"]) == ("test", "ratio")
    assert (accuracy["step"], accuracy["mean"]) == ([10], [0.5])
    marks = answer(collector, "marks")["marks"]
    assert [(mark["kind"], mark["step"], mark["words"]) for mark in marks] == [
        ("evaluation", 10, "evaluation test in step 10"),
        ("restart", RESUMED, f"attempt 1 resumed from step {RESUMED}"),
    ]


def test_an_attempt_without_a_step_shows_the_matrix_before_it(collector: Process) -> None:
    matrix = answer(collector, "matrix")
    assert (matrix["attempt"], matrix["known_steps"]) == (0, [0, STEPS - 1])
    assert [row["words"] for row in matrix["rows"]] == ["rank 0"]


def test_a_clock_an_hour_ahead_counts_as_the_collectors(collector: Process) -> None:
    for name, curve in curves(answer(collector, "series", AHEAD)).items():
        assert max(curve["at"]) <= time.time(), name


def test_a_range_holds_only_its_points(collector: Process) -> None:
    whole = curves(answer(collector, "series"))["loss"]
    some = answer(collector, f"series?metric=loss&from={whole['at'][5]}&to={whole['at'][8]}")
    assert curves(some)["loss"]["step"] == [5, 6, 7, 8]
    assert (some["from"], some["to"]) == (whole["at"][5], whole["at"][8])
    nothing = answer(collector, "series?metric=loss&from=1&to=2")
    assert curves(nothing)["loss"]["step"] == [] and nothing["missing"] == []
