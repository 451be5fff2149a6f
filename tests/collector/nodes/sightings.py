"""Facts of nodes as agents would report them."""

from __future__ import annotations

import time
from typing import Any

from stepwatch.collector.nodes.health import Health
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.places import NODE_STREAM
from stepwatch.signals.records import Kind, NodeFact, make_rows, text_bytes
from stepwatch.signals.wire import Segment, SegmentKey
from tests.collector.made import EPOCH

DEVICE = "0000:3b:00.0"
XID_79 = {"fact": NodeFact.XID, "code": 79, "subject": DEVICE, "text": "Xid 79: off the bus"}
DISK_SLOW = {"fact": NodeFact.DISK_SLOW, "code": -1, "subject": "nvme0n1", "text": "120 ms"}
UP_SECONDS = 100 * 86_400.0
HEALTHY, DEGRADED = Health.HEALTHY, Health.DEGRADED
FAILED, UNKNOWN = Health.FAILED, Health.UNKNOWN


def report(
    time_s: float,
    *facts: dict[str, Any],
    node: str = "node-0",
    spool: int = 7,
    sequence: int = 1,
    job: str = NODE_STREAM,
) -> Segment:
    """What an agent reports `at` seconds after `EPOCH`.

    A fact has `began` (seconds) and is present unless `present` is 0.
    """
    rows = make_rows(Kind.NODE_FACT, len(facts))
    for row, fact in zip(rows, facts, strict=True):
        row["rank"], row["time_ns"] = -1, round(time_s * NANOSECONDS)
        row["fact"], row["code"] = fact["fact"], fact["code"]
        row["present"], row["count"] = fact.get("present", 1), fact.get("count", 1)
        row["began_ns"] = round(fact.get("began", time_s) * NANOSECONDS)
        for name in ("subject", "text"):
            row[name] = text_bytes(fact[name], row.dtype[name].itemsize)
    agent_row = make_rows(Kind.AGENT, 1, version=b"0.1.0")
    tables = {Kind.AGENT: agent_row} | ({Kind.NODE_FACT: rows} if facts else {})
    now = round(time_s * NANOSECONDS)
    clock = ClockPair(now, EPOCH * NANOSECONDS + now)
    return Segment(SegmentKey(job, 0, node, spool, sequence), clock, tables)


def just_now(
    node: str, *facts: dict[str, Any], ago: float = 0.0, spool: int = 7, sequence: int = 1
) -> Segment:
    """A report of this moment, or some seconds `ago`, by a node that has been up for long.

    A fact's `since` is how many seconds before this moment it began, 0 unless given.
    """
    time_s = UP_SECONDS - ago
    dated_facts = [{**fact, "began": UP_SECONDS - fact.get("since", ago)} for fact in facts]
    segment = report(time_s, *dated_facts, node=node, spool=spool, sequence=sequence)
    wall = time.time_ns() - round(ago * NANOSECONDS)
    return segment._replace(clock=ClockPair(round(time_s * NANOSECONDS), wall))
