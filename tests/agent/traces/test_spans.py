"""Records become trees: measured where they were measured, laid end to end where not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from stepwatch.agent.traces.spans import Span
from stepwatch.agent.traces.steps import PARTS
from stepwatch.signals import traces
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import (
    DTYPES,
    CheckpointEvent,
    Kind,
    LifecycleEvent,
    Op,
    StepFlag,
    make_rows,
)
from stepwatch.signals.wire import Rows

from .made import ATTEMPT, JOB, MONOTONIC, MS, WALL, named, rows, step, steps, traced

LENGTHS = dict(zip((field for _, field in PARTS), range(1, 10), strict=True))


def full_step(number: int = 12, rank: int = 3) -> dict[Kind, Rows]:
    """A step with time in every phase and two groups of all-reduce."""
    spent = {field: length * MS for field, length in LENGTHS.items()}
    record = step(number, rank, flags=StepFlag.FIRST, tokens=64, loss=1.5, **spent)
    record["duration_ns"] = sum(spent.values())
    common = {"rank": rank, "step": number, "op": Op.ALL_REDUCE, "time_ns": record["time_ns"]}
    first = {"group": 7, "count": 2, "bytes": 640, "exposed_ns": 3 * MS, "longest_ns": 2 * MS}
    second = {"group": 9, "count": 1, "bytes": 64, "exposed_ns": 5 * MS, "longest_ns": 5 * MS}
    arrived = {"first_arrival_ns": record["time_ns"] - 30 * MS}
    collectives = rows(Kind.COLLECTIVE, {**common, **first, **arrived}, {**common, **second})
    return {**steps(record), Kind.COLLECTIVE: collectives}


def wall(monotonic_ns: int) -> int:
    return WALL + monotonic_ns - MONOTONIC


def seconds(span: Span) -> float:
    return (span.end_ns - span.start_ns) / NANOSECONDS


def check_tree(spans: list[Span]) -> None:
    """Ids differ, parents are there and of the same trace, nothing ends before it begins."""
    assert len({(span.trace_id, span.span_id) for span in spans}) == len(spans)
    spans_by_id = {span.span_id: span for span in spans}
    for span in spans:
        assert span.start_ns <= span.end_ns
        if span.parent_id:
            assert spans_by_id[span.parent_id].trace_id == span.trace_id


def test_a_step_is_a_tree_of_phases_and_collectives() -> None:
    spans = traced(full_step())
    check_tree(spans)
    (root,) = [span for span in spans if not span.parent_id]
    assert root.trace_id == traces.trace_id(JOB, ATTEMPT, 12)
    assert root.span_id == traces.span_id(JOB, ATTEMPT, 12, 3, "step")
    assert root.end_ns == wall(12 * NANOSECONDS)
    assert root.attributes[traces.START_MEASURED] is True
    assert (root.attributes[traces.TOKENS], root.attributes[traces.LOSS]) == (64, 1.5)
    assert traces.GRAD_NORM not in root.attributes, "never recorded is not zero"
    parts = [span for span in spans if span.parent_id == root.span_id]
    assert [span.name for span in parts] == [name for name, _ in PARTS]
    assert [seconds(span) for span in parts] == [length / 1e3 for length in LENGTHS.values()]
    assert all(span.attributes[traces.START_MEASURED] is False for span in spans[1:])
    assert all(span.attributes[traces.AGGREGATED] is True for span in spans[1:])
    (blocked,) = named(spans, "collectives")
    below = [span for span in spans if span.parent_id == blocked.span_id]
    assert [(span.name, seconds(span)) for span in below] == [
        ("all_reduce", 0.003),
        ("all_reduce", 0.005),
    ]
    assert below[0].attributes[traces.GROUP] == 7
    assert below[0].attributes[traces.LONGEST_SECONDS] == 0.002


def test_phases_tile_the_step_and_the_first_arrival_is_where_it_was() -> None:
    spans = traced(full_step())
    root, *children = spans
    parts = [span for span in children if span.parent_id == root.span_id]
    edges = [parts[0].start_ns, *(span.end_ns for span in parts)]
    assert edges == [root.start_ns, *(span.start_ns for span in parts[1:]), root.end_ns]
    (moment,) = named(spans, "all_reduce")[0].moments
    assert (moment.name, moment.wall_ns) == ("first arrival", root.end_ns - 30 * MS)


def test_the_same_records_make_the_same_spans() -> None:
    assert traced(full_step()) == traced(full_step())
    ids = {span.span_id for span in traced(full_step(rank=3))}
    assert not ids & {span.span_id for span in traced(full_step(rank=4))}
    assert {span.trace_id for span in traced(full_step(), full_step(rank=4))} == {
        traces.trace_id(JOB, ATTEMPT, 12)
    }


def test_collectives_of_an_earlier_pack_belong_to_their_step() -> None:
    tables = full_step()
    split = [{Kind.COLLECTIVE: tables[Kind.COLLECTIVE]}, {}, {Kind.STEP: tables[Kind.STEP]}]
    assert traced(*split) == traced(tables)


def test_collectives_that_overlapped_all_work_still_have_a_parent() -> None:
    tables = full_step()
    tables[Kind.STEP]["collective_ns"] = 0
    spans = traced(tables)
    check_tree(spans)
    assert seconds(named(spans, "collectives")[0]) == 0.0


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"flags": StepFlag.UNFINISHED}, "left by an exception"),
        ({"loss": float("inf")}, "values that are not finite"),
        ({"flags": StepFlag.FIRST}, ""),
    ],
)
def test_a_step_that_went_wrong_is_an_error(fields: Any, error: str) -> None:
    assert [span.error for span in named(traced(steps(step(4, **fields))), "step")] == [error]


def life(rank: int, *events: tuple[LifecycleEvent, int, int, int, bytes]) -> dict[Kind, Rows]:
    """A flush of LIFECYCLE records (event, step, second, value, text)."""
    names = ("event", "step", "time_ns", "value", "text")
    return {
        Kind.LIFECYCLE: rows(
            Kind.LIFECYCLE,
            *(
                {
                    "rank": rank,
                    **dict(zip(names, event, strict=True)),
                    "time_ns": event[2] * NANOSECONDS,
                }
                for event in events
            ),
        )
    }


START = (LifecycleEvent.START, 0, 100, 4, b"node-1")
FIRST = (LifecycleEvent.FIRST_STEP, 40, 130, 0, b"")
RESUME = (LifecycleEvent.RESUME, 0, 120, 40, b"checkpoint-40")


@pytest.mark.parametrize("flushes", [1, 3])
def test_a_recovery_lasts_from_the_start_of_the_process_to_its_first_step(flushes: int) -> None:
    if flushes == 1:
        spans = traced(life(1, START, RESUME, FIRST))
    else:
        spans = traced(life(1, START), life(1, RESUME), life(1, FIRST))
    check_tree(spans)
    root, resume = spans
    assert (root.name, seconds(root), root.error) == ("recovery", 30.0, "")
    assert root.trace_id == traces.trace_id(JOB, ATTEMPT, 40)
    assert (resume.name, resume.parent_id) == ("resume", root.span_id)
    assert resume.attributes[traces.RESUMED_FROM] == 40
    assert resume.attributes[traces.DETAIL] == "checkpoint-40"


def test_a_start_without_resume_is_a_startup() -> None:
    assert [(span.name, seconds(span)) for span in traced(life(0, START, FIRST))] == [
        ("startup", 30.0)
    ]


def test_a_rank_that_fails_before_its_first_step_says_so() -> None:
    failure = (LifecycleEvent.FAILURE, 0, 110, 0, b"RuntimeError: no data")
    spans = traced(life(0, START, failure))
    assert [(span.name, span.error) for span in spans] == [
        ("startup", "ended before its first step"),
        ("failure", "RuntimeError: no data"),
    ]


def test_preemption_and_failure_are_traced_and_an_end_is_not() -> None:
    spans = traced(
        life(
            0,
            (LifecycleEvent.PREEMPTION, 9, 200, 9, b""),
            (LifecycleEvent.FAILURE, 9, 201, 9, b""),
            (LifecycleEvent.FINISH, 9, 202, 9, b""),
        )
    )
    assert [(span.name, span.error, seconds(span)) for span in spans] == [
        ("preemption", "", 0.0),
        ("failure", "failed", 0.0),
    ]


def saved(*events: Mapping[str, Any]) -> dict[Kind, Rows]:
    """A flush of CHECKPOINT records of rank 2, step 50; `at` is in seconds."""
    return {
        Kind.CHECKPOINT: rows(
            Kind.CHECKPOINT,
            *(
                {"rank": 2, "step": 50, "time_ns": int(event["at"] * NANOSECONDS)}
                | {name: value for name, value in event.items() if name != "at"}
                for event in events
            ),
        )
    }


BEGIN = {"event": CheckpointEvent.BEGIN, "at": 100}
STALLED = {"event": CheckpointEvent.BEGIN, "at": 102, "stall_ns": 2 * NANOSECONDS}
WRITTEN = {
    "event": CheckpointEvent.WRITTEN, "at": 119, "durable_ns": 9 * NANOSECONDS, "bytes": 1 << 20
}  # fmt: skip
VERIFIED = {"event": CheckpointEvent.VERIFIED, "at": 120}


def test_a_checkpoint_is_its_stall_and_below_it_what_became_of_the_files() -> None:
    spans = traced(saved(BEGIN), saved(STALLED), saved(WRITTEN), saved(VERIFIED))
    check_tree(spans)
    root, durable, verified = spans
    assert (root.name, seconds(root), root.parent_id) == ("checkpoint", 2.0, 0)
    assert (durable.name, seconds(durable)) == ("checkpoint.durable", 9.0)
    assert durable.start_ns == root.start_ns == wall(100 * NANOSECONDS)
    assert durable.attributes[traces.CHECKPOINT_BYTES] == 1 << 20
    assert (verified.name, verified.error) == ("checkpoint.verified", "")
    assert {durable.parent_id, verified.parent_id} == {root.span_id}


def test_a_save_that_fails_and_one_that_follows_at_the_same_step_are_two() -> None:
    failed = {**STALLED, "event": CheckpointEvent.FAILED, "text": b"OSError"}
    spans = traced(saved(BEGIN, failed, BEGIN, STALLED, VERIFIED))
    check_tree(spans)
    assert [(span.name, span.error) for span in spans] == [
        ("checkpoint", "OSError"),
        ("checkpoint", ""),
        ("checkpoint.verified", ""),
    ]
    assert spans[2].parent_id == spans[1].span_id


def test_a_checkpoint_of_which_the_beginning_was_not_seen_has_no_parent_to_miss() -> None:
    rejected = {"event": CheckpointEvent.REJECTED, "at": 7, "text": b"digest"}
    spans = traced(saved(WRITTEN), saved(rejected))
    check_tree(spans)
    assert [(span.name, span.parent_id, span.error) for span in spans] == [
        ("checkpoint.durable", 0, ""),
        ("checkpoint.rejected", 0, "digest"),
    ]


@pytest.mark.parametrize("impossible", [2**64 - 1, 31 * 86_400 * NANOSECONDS, 103 * NANOSECONDS])
def test_impossible_times_of_a_save_are_replaced_by_when_it_was_seen(impossible: int) -> None:
    ended = {**STALLED, "stall_ns": impossible}
    written = {**WRITTEN, "at": 102, "durable_ns": impossible}
    spans = traced(saved(BEGIN, ended, written))
    check_tree(spans)
    assert [(span.name, seconds(span)) for span in spans] == [
        ("checkpoint", 2.0),
        ("checkpoint.durable", 2.0),
    ]


TRACED_KINDS = (Kind.STEP, Kind.COLLECTIVE, Kind.CHECKPOINT, Kind.LIFECYCLE, Kind.NUMERICS)
TABLES = st.fixed_dictionaries(
    {kind: arrays.arrays(DTYPES[kind], st.integers(0, 3)) for kind in TRACED_KINDS}
)


@settings(deadline=None, max_examples=60)
@given(st.lists(TABLES, max_size=3))
def test_records_of_any_content_make_spans_that_otlp_can_carry(flushes: Any) -> None:
    check_limits(traced(*flushes, every=1))


def test_the_largest_numbers_are_kept_within_what_otlp_can_carry() -> None:
    flush = {kind: make_rows(kind, 1, rank=0) for kind in TRACED_KINDS}
    for table in flush.values():
        table.view(np.uint8)[:] = 0xFF
    flush[Kind.STEP]["flags"] = StepFlag.FIRST
    flush[Kind.CHECKPOINT]["stall_ns"] = 0
    flush[Kind.CHECKPOINT]["event"] = CheckpointEvent.WRITTEN
    flush[Kind.LIFECYCLE]["event"] = LifecycleEvent.RESUME
    spans = traced(flush)
    assert {"step", "other", "checkpoint.durable", "resume"} <= {span.name for span in spans}
    check_limits(spans)


def check_limits(spans: list[Span]) -> None:
    for span in spans:
        assert 0 <= span.start_ns <= span.end_ns < 1 << 63
        assert all(0 <= moment.wall_ns < 1 << 63 for moment in span.moments)
        for value in span.attributes.values():
            assert not isinstance(value, int) or -(1 << 63) <= value < 1 << 63
