"""The ranks probe reports every rank once, in the segment of its own attempt."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from prometheus_client import generate_latest

from stepwatch.agent.app import Agent
from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.probes.ranks import RanksProbe
from stepwatch.agent.rings.tail import WatchedRank
from stepwatch.signals import wire
from stepwatch.signals.blackbox import RingReader
from stepwatch.signals.clock import SystemClock
from stepwatch.signals.records import Kind
from tests.agent.conftest import Rank, round_of


def test_a_segment_holds_the_ranks_of_its_attempt_only(
    tmp_path: Path, make_agent: Callable[..., Agent]
) -> None:
    ranks = [Rank(tmp_path / "rings", rank, job=job) for job in ("a", "b") for rank in range(2)]
    agent = make_agent()
    for count, rank in enumerate(ranks):
        rank.steps(count + 1)
    round_of(agent)
    ranks_by_attempt = {}
    for _, data in agent.spool.oldest(10):
        segment = wire.decode(data)
        rows = segment.tables[Kind.RANK_STATE]
        ranks_by_attempt[AttemptKey(segment.key.job, segment.key.attempt)] = rows["rank"].tolist()
        assert (rows["seq"] == [rank.step for rank in ranks if rank.job == segment.key.job]).all()
    assert ranks_by_attempt == {AttemptKey("a", 0): [0, 1], AttemptKey("b", 0): [0, 1]}
    page = generate_latest(agent.registry).decode()
    assert 'stepwatch_node_ranks{job_name="a",node="n1"} 2.0' in page
    for rank in ranks:
        rank.ring.close()


def test_no_rank_is_no_row_and_no_gauge() -> None:
    probe = RanksProbe(SystemClock(), tuple)
    rows = probe.read()
    assert len(rows) == 0 and list(probe.gauges(rows)) == []
    assert len(probe.rows_of(rows, [])) == 0


def test_counters_that_a_row_cannot_hold_are_cut(tmp_path: Path) -> None:
    rank = Rank(tmp_path / "rings")
    watched = WatchedRank(RingReader(rank.ring.path), overruns=1 << 40, torn=1 << 40)
    row = RanksProbe(SystemClock(), lambda: [watched]).read()[0]
    assert row["overruns"] == row["torn"] == 0xFFFFFFFF
    rank.ring.close()
