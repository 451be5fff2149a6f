"""What an agent spools of its node itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepwatch.agent import node_report
from stepwatch.agent.node_report import FIRST_SECONDS, NodeReport
from stepwatch.agent.spool import Spool
from stepwatch.signals import wire
from stepwatch.signals.clock import NANOSECONDS, ClockPair
from stepwatch.signals.pacing import NODE_REPORT_SECONDS
from stepwatch.signals.places import NODE_STREAM
from stepwatch.signals.records import Kind, make_rows
from stepwatch.signals.wire import Rows, Segment


class Reporter:
    """A report over a real spool, and a clock that the test turns."""

    def __init__(self, folder: Path) -> None:
        self.spool = Spool(folder, "gpu-07")
        self.report = NodeReport(self.spool)

    def segments_at(self, seconds: float, facts: int = 0, away: bool = False) -> int:
        """Update with so many facts; returns how many segments are spooled then."""
        moment = ClockPair(round(seconds * NANOSECONDS), round(1e9 * NANOSECONDS))
        rows: Rows = make_rows(Kind.NODE_FACT, facts, code=np.arange(facts) + round(seconds))
        agent_row = make_rows(Kind.AGENT, 1)
        self.report.update(rows, lambda: agent_row, moment, collector_away=away)
        return len(self.spool)

    def newest(self) -> Segment:
        return wire.decode(self.spool.oldest(100)[-1][1])


@pytest.fixture
def reporter(tmp_path: Path) -> Reporter:
    return Reporter(tmp_path / "spool")


def test_it_reports_now_and_then_and_at_once_what_is_wrong(reporter: Reporter) -> None:
    assert reporter.segments_at(100.0) == 0, "the probes have not been read yet"
    assert reporter.segments_at(100.0 + FIRST_SECONDS - 1) == 0
    assert reporter.segments_at(100.0 + FIRST_SECONDS) == 1
    assert Kind.NODE_FACT not in reporter.newest().tables
    assert reporter.segments_at(135.0, facts=2) == 2
    key = reporter.newest().key
    assert (key.job, key.attempt, key.node, key.of_node) == (NODE_STREAM, 0, "gpu-07", True)
    assert reporter.newest().tables[Kind.NODE_FACT]["code"].tolist() == [135, 136]
    assert reporter.segments_at(135.0 + NODE_REPORT_SECONDS - 1) == 2
    assert reporter.segments_at(135.0 + NODE_REPORT_SECONDS) == 3


def test_while_nobody_answers_only_facts_are_spooled(reporter: Reporter) -> None:
    assert reporter.segments_at(0.0, away=True) == 0
    assert reporter.segments_at(1000.0, away=True) == 0
    assert reporter.segments_at(1001.0, facts=1, away=True) == 1
    assert reporter.segments_at(1001.0 + NODE_REPORT_SECONDS) == 2


def test_what_a_full_disk_refuses_goes_into_the_next_report(
    reporter: Reporter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_report, "MOST_ROWS", 3)
    reporter.spool._limit = 0
    assert reporter.segments_at(10.0, facts=2) == 0 and reporter.segments_at(20.0, facts=2) == 0
    assert "trying again" in caplog.text
    reporter.spool._limit = 1 << 20
    assert reporter.segments_at(30.0) == 1
    assert reporter.newest().tables[Kind.NODE_FACT]["code"].tolist() == [11, 20, 21]
    assert reporter.segments_at(31.0) == 1, "and only there"
