"""Runs that trained for two hours; facts of their configuration differ."""

from __future__ import annotations

import time

from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.records import Kind
from stepwatch.signals.wire import Segment
from tests.collector.made import JOB, body, run_segments, with_facts
from tests.collector.process import Process

STEPS, RANKS, SECONDS, SLOW_FROM = 300, 4, 24.0, 200
EXCESS = 12.0
"""Additional seconds of a slow step."""
STANDS_AT, STANDS = 150, 180.0
"""A step before which nothing goes on for so many seconds: half of a budget of five percent."""
OTHER = "llama-7b-b"
"""A run beside `JOB`: no rank is slow, no time is lost."""
FACTS = {"optimizer": "adamw", "learning_rate": "0.0003", "model": "7b"}
PATIENCE_MS = 60_000


def send_hours(
    collector: Process, job: str = JOB, slow: bool = True, facts: dict[str, str] = FACTS
) -> None:
    """Post a run that has just come to its last step; rank 2 may be slow in its last third."""
    excess = {(2, "forward"): EXCESS} if slow else None
    run = run_segments(STEPS, RANKS, SECONDS, excess, SLOW_FROM, job)
    ran_s = STEPS * SECONDS + (_later(STEPS - 1) if slow else 0.0)
    clock = ClockPair(0, time.time_ns() - round(ran_s * NANOSECONDS))
    sent = [_in_time(item, slow)._replace(clock=clock) for item in with_facts(run, *facts.items())]
    verdicts = collector.send(body(sent)).json()["verdicts"]
    assert {verdict["verdict"] for verdict in verdicts} == {"accepted"}


def _later(step: int) -> float:
    """Seconds by which a step of a slow run ends later than one of an even run."""
    stands = STANDS if step >= STANDS_AT else 0.0
    return stands + EXCESS * max(0, step - SLOW_FROM + 1)


def _in_time(item: Segment, slow: bool) -> Segment:
    if not slow:
        return item
    tables = {kind: rows.copy() for kind, rows in item.tables.items()}
    for rows in tables.values():
        for row in rows if rows is not tables.get(Kind.LIFECYCLE) else ():
            row["time_ns"] += round(_later(int(row["step"])) * NANOSECONDS)
    return item._replace(tables=tables)
