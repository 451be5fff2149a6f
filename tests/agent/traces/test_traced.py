"""Steps that were traced are counted by job, and an exemplar leads to one of the newest traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from stepwatch.agent.app import Agent
from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.traces.traced import PREFERRED_SECONDS, Traced
from stepwatch.agent.traces.tracer import MOST_ATTEMPTS, Tracer
from stepwatch.signals import names, traces
from stepwatch.signals.records import Kind, StepFlag
from stepwatch.signals.wire import Rows

from .made import ATTEMPT, CLOCK, JOB, KEY, NODE, WALL, Kept, step, steps, usual

FEW = 16
"""One step in so many is sampled."""


def traced_of(*flushes: Mapping[Kind, Rows], key: AttemptKey = KEY) -> Traced:
    tracer = Tracer(NODE, Kept(), FEW)
    for tables in flushes:
        tracer.trace(key, CLOCK, tables)
    return dict(tracer.traced)[key.job]


def trace_of(number: int) -> str:
    return f"{traces.trace_id(JOB, ATTEMPT, number):032x}"


def test_steps_and_their_lengths_are_counted_once() -> None:
    # Steps 16 and 32 are sampled, 40 is unusual; each has children, which are not steps.
    flush = steps(
        step(16, ms=10), step(32, ms=20), step(33), step(40, ms=30, flags=StepFlag.UNFINISHED)
    )
    traced_job = traced_of(flush, flush)
    assert traced_job.steps == 3
    assert traced_job.seconds == pytest.approx(0.06)


def test_the_example_is_the_newest_trace_with_its_rank_and_length() -> None:
    example = traced_of(steps(step(16, 3, ms=10)), steps(step(32, 5, ms=20))).example
    assert example is not None
    assert (example.trace_id, example.rank, example.unusual) == (trace_of(32), 5, False)
    assert example.seconds == pytest.approx(0.02)
    # Step 32 ends at 32 s of the monotonic clock, which is 22 s after the clock pair.
    assert example.at_s == pytest.approx(WALL / 1e9 + 22)


def test_an_unusual_step_stays_while_it_is_new() -> None:
    unusual = steps(step(20, flags=StepFlag.UNFINISHED))
    example = traced_of(unusual, steps(step(32))).example
    assert example is not None and example.trace_id == trace_of(20)
    newer = traced_of(unusual, steps(step(30, flags=StepFlag.UNFINISHED)), steps(step(32))).example
    assert newer is not None and newer.trace_id == trace_of(30)
    later = (20 + int(PREFERRED_SECONDS)) // FEW * FEW + FEW
    replaced = traced_of(unusual, steps(step(later))).example
    assert replaced is not None and replaced.trace_id == trace_of(later)


def test_a_late_record_is_no_news() -> None:
    example = traced_of(steps(step(32)), steps(step(16))).example
    assert example is not None and example.trace_id == trace_of(32)


def test_jobs_are_bounded_and_the_one_longest_without_a_trace_goes_first() -> None:
    tracer = Tracer(NODE, Kept(), FEW)
    jobs = [f"job-{number}" for number in range(MOST_ATTEMPTS)]
    for job, number in [(job, 16) for job in jobs] + [(jobs[0], 32), ("another", 16)]:
        tracer.trace(AttemptKey(job, 0), CLOCK, steps(step(number)))
    tracer.trace(AttemptKey("untraced", 0), CLOCK, usual(1, 2))
    jobs_traced = [job for job, _ in tracer.traced]
    assert jobs_traced == [*jobs[2:], jobs[0], "another"]


def test_a_scraper_that_asks_for_openmetrics_gets_the_exemplar(
    tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    agent = make_agent()
    agent.tracer = Tracer(NODE, Kept(), FEW)
    agent.tracer.trace(KEY, CLOCK, steps(step(16, 1, ms=250)))
    # Neither function has types.
    exposition: bytes = generate_latest(agent.registry)  # type: ignore[no-untyped-call]
    read = text_string_to_metric_families(exposition.decode())  # type: ignore[no-untyped-call]
    families = {family.name: family for family in read}
    metric = names.AGENT_TRACED_STEP_SECONDS
    (sample,) = families[metric.name.removesuffix("_total")].samples
    assert set(sample.labels) == set(metric.labels)
    assert sample.exemplar is not None
    assert sample.exemplar.labels == {"trace_id": trace_of(16), "rank": "1"}
    assert sample.exemplar.value == pytest.approx(0.25)
