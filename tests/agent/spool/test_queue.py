"""The spool keeps what it took: across kills, damage, deletion and a full disk."""

from __future__ import annotations

import logging
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.keys import AttemptKey
from stepwatch.agent.spool import BATCH_BYTES, Spool
from stepwatch.signals import wire
from stepwatch.signals.clock import ClockPair
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.records import DTYPES, Kind
from tests.agent.conftest import Rank, collector, give_up, once, round_of, stored_steps, tables_in

MakeAgent = Callable[..., Agent]


def test_a_restarted_agent_goes_on_where_the_spool_ends(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    for _ in range(5):  # each dies without a word, before anything was acknowledged
        agent = make_agent()
        rank.steps(20)
        round_of(agent)
        agent.close()
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url)
        round_of(agent)
        agent.relay.drain(give_up)
    assert stored_steps(tmp_path / "store.db") == once(1, 100)
    assert not list((tmp_path / "spool").glob("*.seg"))


def test_death_between_the_acknowledgement_and_the_deletion_stores_nothing_twice(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url)
        rank.steps(20)
        round_of(agent)
        segments = {path: path.read_bytes() for path in (tmp_path / "spool").glob("*.seg")}
        agent.relay.drain(give_up)
        agent.close()
        for path, data in segments.items():
            path.write_bytes(data)
        agent = make_agent(url)
        rank.steps(20)
        round_of(agent)
        agent.relay.drain(give_up)
    assert stored_steps(tmp_path / "store.db") == once(1, 40)


def test_a_deleted_spool_is_read_anew_and_taken_for_no_duplicate(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent
) -> None:
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url)
        rank.steps(20)
        round_of(agent)
        agent.relay.drain(give_up)
        agent.close()
        for path in (tmp_path / "spool").iterdir():
            path.unlink()
        rank.steps(20)
        agent = make_agent(url)
        round_of(agent)
        agent.relay.drain(give_up)
        assert agent.relay.refused == 0
    steps_by_rank = stored_steps(tmp_path / "store.db")
    assert set(steps_by_rank) == set(once(1, 40))


def test_a_spool_deleted_under_a_running_agent_is_made_again(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent()
    rank.steps(5)
    round_of(agent)
    for path in (tmp_path / "spool").iterdir():
        path.unlink()
    (tmp_path / "spool").rmdir()
    rank.steps(5)
    round_of(agent)
    assert len(agent.spool.oldest(10)) == 1
    assert agent.spool.dropped == 1
    assert "is lost" in caplog.text


def test_two_agents_never_share_a_spool(tmp_path: Path) -> None:
    first = Spool(tmp_path / "spool", "n1")
    with pytest.raises(ConfigurationError, match="another agent uses the spool"):
        Spool(tmp_path / "spool", "n1")
    first.close()
    Spool(tmp_path / "spool", "n1").close()


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "garbage"])
def test_a_damaged_segment_holds_up_no_other(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make_agent()
    for _ in range(4):
        rank.steps(10)
        round_of(agent)
    agent.close()
    victim = sorted((tmp_path / "spool").glob("*.seg"))[1]
    good = victim.read_bytes()
    changed = {
        "flip": good[:60] + bytes([good[60] ^ 1]) + good[61:],
        "cut": good[:-9],
        "empty": b"",
        "garbage": os.urandom(300),
    }
    victim.write_bytes(changed[damage])
    (tmp_path / "spool" / "holiday.seg").write_bytes(b"not ours")
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url)
        rank.steps(10)
        round_of(agent)
        agent.relay.drain(give_up)
        assert len(agent.spool) == 0
    assert agent.spool.dropped == 2
    assert caplog.text.count("is damaged") == 2
    assert victim.with_suffix(".damaged").read_bytes() == changed[damage]
    lost = Counter({(0, step): 1 for step in range(11, 21)})
    assert stored_steps(tmp_path / "store.db") == once(1, 50) - lost


@pytest.mark.parametrize("position", [-5, 8, 12], ids=["payload", "header size", "payload size"])
def test_damage_done_while_the_agent_runs_is_counted_and_holds_up_no_other(
    rank: Rank, tmp_path: Path, make_agent: MakeAgent, position: int
) -> None:
    with collector(tmp_path / "store.db") as url:
        agent = make_agent(url)
        for _ in range(4):
            rank.steps(10)
            round_of(agent)
        victim = sorted((tmp_path / "spool").glob("*.seg"))[1]
        raw = bytearray(victim.read_bytes())
        raw[position] ^= 0x0F
        victim.write_bytes(raw)
        agent.relay.drain(give_up)
        assert (agent.relay.refused + agent.spool.dropped, len(agent.spool)) == (1, 0)
    assert victim.with_suffix(".damaged").exists()
    lost = Counter({(0, step): 1 for step in range(11, 21)})
    assert stored_steps(tmp_path / "store.db") == once(1, 40) - lost


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"cursors": {"a": 1}}',
        b'{"cursors": {"1": 1e999}}',
        b"\xff\xfe",
        b"null",
    ],
)
def test_damaged_cursors_are_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cursors.json").write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"is damaged .* move the spool away") as refused:
        Spool(tmp_path, "n1")
    assert "\n" not in str(refused.value)


def test_a_spool_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match="pass --spool with a writable directory"):
        Spool(tmp_path / "file", "n1")
    with pytest.raises(ConfigurationError, match="cannot use the spool"):
        Spool(Path("/proc/spool"), "n1")


def test_a_full_spool_downsamples_the_oldest_steps_and_keeps_the_facts(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    limit = 20_000
    agent = make_agent(spool_limit_bytes=limit)
    ranks = [Rank(tmp_path / "rings", number, capacity=4096) for number in range(2)]
    for _ in range(40):
        for rank in ranks:
            rank.facts()
            rank.steps(40)
        round_of(agent)
        assert agent.spool.waiting_bytes <= limit
        on_disk = sum(path.stat().st_size for path in (tmp_path / "spool").glob("*.seg"))
        assert on_disk == agent.spool.waiting_bytes
    assert agent.spool.dropped > 0
    segments = [wire.decode(data).tables for _, data in agent.spool.oldest(1000)]
    assert len(segments) == 40
    for kind in (Kind.LIFECYCLE, Kind.CHECKPOINT):
        assert sum(len(tables.get(kind, [])) for tables in segments) == 80
    has_steps = [Kind.STEP in tables for tables in segments]
    assert has_steps == sorted(has_steps), (
        "an older segment was kept while a newer one was downsampled"
    )
    gaps = [row for tables in segments for row in tables.get(Kind.GAP, [])]
    kept_rows = sum(len(tables.get(Kind.STEP, [])) for tables in segments)
    assert kept_rows + sum(int(gap["last_seq"] - gap["first_seq"]) + 1 for gap in gaps) == 3200
    assert {int(gap["rank"]) for gap in gaps} == {0, 1}
    for rank in ranks:
        rank.ring.close()


def test_facts_that_do_not_fit_wait_in_the_ring(tmp_path: Path, make_agent: MakeAgent) -> None:
    rank = Rank(tmp_path / "rings", capacity=4096)
    agent = make_agent(spool_limit_bytes=3_000)
    for _ in range(60):
        rank.facts()
        round_of(agent)
    assert 0 < len(agent.spool) < 60
    with collector(tmp_path / "store.db") as url:
        agent.close()
        agent = make_agent(url)
        agent.relay.drain(give_up)
        round_of(agent)
        agent.relay.drain(give_up)
    facts = [len(tables.get(Kind.LIFECYCLE, [])) for tables in tables_in(tmp_path / "store.db")]
    assert sum(facts) == 60
    rank.ring.close()


def test_a_request_stays_small_whatever_waits(tmp_path: Path) -> None:
    spool = Spool(tmp_path, "n1")
    noise = np.random.default_rng(0)
    raw = noise.bytes(40_000 * DTYPES[Kind.COLLECTIVE].itemsize)
    rows = np.frombuffer(raw, dtype=DTYPES[Kind.COLLECTIVE])
    for _ in range(8):
        spool.put(AttemptKey("job", 0), ClockPair(1, 1), {Kind.COLLECTIVE: rows})
    batch = spool.oldest(64)
    assert 1 < len(batch) < 8
    assert sum(len(data) for _, data in batch) <= BATCH_BYTES
    spool.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A file system of 128 KiB at `tmp_path/spool`."""
    folder = tmp_path / "spool"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.strip()}")
    return folder


def test_nothing_is_lost_while_the_disk_is_full(
    tmp_path: Path, small_disk: Path, make_agent: MakeAgent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    rank = Rank(tmp_path / "rings", capacity=4096)
    try:
        with collector(tmp_path / "store.db") as url:
            agent = make_agent(url)
            for _ in range(60):
                rank.steps(10)
                round_of(agent)
            assert "records wait in the rings" in caplog.text
            assert len(agent.spool) < 60
            assert agent.tail.records_read == 10 * len(agent.spool)
            agent.relay.drain(give_up)
            assert len(agent.spool) == 0, "a full disk must not keep segments from leaving it"
            round_of(agent)
            agent.relay.drain(give_up)
            agent.close()
        assert stored_steps(tmp_path / "store.db") == once(1, 600)
        assert (agent.tail.records_read, agent.tail.overruns) == (600, 0)
    finally:
        subprocess.run(["umount", "-l", str(small_disk)], check=True)
    rank.ring.close()
