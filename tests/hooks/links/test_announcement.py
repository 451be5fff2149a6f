"""The lines of a run: one at its start, one at its end, on rank 0, and never a word more."""

from __future__ import annotations

import io
import os
import sys
import time
from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.links.announcement import end_line, start_line
from stepwatch.signals import presence
from stepwatch.signals.blackbox import Identity
from stepwatch.signals.presence import AWAY, CONNECTED, CONNECTING, Presence
from stepwatch.signals.records import Kind
from tests.hooks.conftest import rows_in

NOW = 10**12
WHO = Identity("llama-7b", 0, 0, 8, "node-1", os.getpid(), 1)
AGENT = Presence(77, "http://127.0.0.1:8480", "http://head:8480", CONNECTED, NOW, {"llama-7b": 1})
RINGS = Path("/dev/shm/stepwatch")


@pytest.fixture(autouse=True)
def one_node(monkeypatch: pytest.MonkeyPatch, rings: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")


def test_all_is_well() -> None:
    assert start_line(WHO, AGENT, NOW, RINGS) == (
        "watching rank 0 of 8 as job llama-7b; agent: connected; "
        "page: http://head:8480/jobs/llama-7b"
    )
    restarted = WHO._replace(attempt=2)
    assert "as job llama-7b, attempt 2;" in start_line(restarted, AGENT, NOW, RINGS)
    connecting = AGENT._replace(link=CONNECTING)
    assert "agent: connecting to http://127.0.0.1:8480;" in start_line(WHO, connecting, NOW, RINGS)


def test_without_an_agent_the_line_has_the_command_that_starts_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line = start_line(WHO, None, NOW, RINGS)
    assert "agent: none runs on this node" in line and line.endswith("start one: stepwatch up")
    stale = start_line(WHO, AGENT, NOW + 60 * 10**9, RINGS)
    assert "agent: it makes no progress" in stale and stale.endswith("stepwatch up")
    elsewhere = start_line(WHO, None, NOW, Path("/tmp/r"))
    assert elsewhere.endswith("stepwatch up --ring-dir /tmp/r")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    line = start_line(WHO, None, NOW, RINGS)
    assert line.endswith("stepwatch agent --collector http://HOST:8480")
    monkeypatch.setenv("STEPWATCH_COLLECTOR", "http://head:8480")
    assert start_line(WHO, None, NOW, RINGS).endswith("start one: stepwatch agent")


def test_without_a_collector_the_line_has_the_command_that_starts_it() -> None:
    away = AGENT._replace(link=AWAY)
    line = start_line(WHO, away, NOW, RINGS)
    assert "no collector answers at http://127.0.0.1:8480" in line
    assert line.endswith("start it: stepwatch collector --port 8480")
    remote_line = start_line(WHO, away._replace(collector="http://head:9000"), NOW, RINGS)
    assert "--token-file FILE, on head" in remote_line


def test_the_end_says_what_came_of_it() -> None:
    assert end_line(WHO, 1200, 612.0, AGENT) == (
        "job llama-7b: 1200 steps in 10.2 min, 1.96 steps/s; incidents: 1; "
        "page: http://head:8480/jobs/llama-7b"
    )
    restarted_line = end_line(WHO._replace(attempt=1), 1200, 612.0, AGENT)
    assert "; incidents: 1 in attempt 1; page" in restarted_line
    unknown = end_line(WHO, 1, 4.0, None)
    assert unknown == "job llama-7b: 1 step in 4 s, 0.25 steps/s; incidents: unknown"
    assert end_line(WHO, 0, 4.0, AGENT) == "job llama-7b: no step was completed"


def test_rank_0_prints_one_line_at_each_end(rings: Path, capfd: pytest.CaptureFixture[str]) -> None:
    presence.write(rings, AGENT._replace(written_ns=time.monotonic_ns()))
    watch = Watch.from_env(job="mine")
    assert "watching rank 0 of 8 as job mine; agent: connected" in capfd.readouterr().err
    for _ in range(3):
        with watch.step():
            pass
    assert capfd.readouterr().err == ""
    watch.close()
    watch.close()
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("stepwatch: job mine: 3 steps in ")
    assert "incidents: unknown; page: http://head:8480/jobs/mine" in line


def test_a_process_without_a_launcher_is_announced_with_its_first_step(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name)
    watch = Watch.from_env(job="mine")
    assert "watching" not in capfd.readouterr().err
    watch.begin_step()
    assert "watching rank 0 of 1 as job mine" in capfd.readouterr().err
    watch.close()


@pytest.mark.parametrize(("name", "value"), [("STEPWATCH_QUIET", "1"), ("RANK", "3")])
def test_others_and_who_wants_quiet_print_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    watch = Watch.from_env(job="mine")
    with watch.step():
        pass
    watch.close()
    assert capfd.readouterr().err == ""


def test_a_stderr_that_is_gone_hurts_nobody(monkeypatch: pytest.MonkeyPatch, rings: Path) -> None:
    closed = io.StringIO()
    closed.close()
    for broken in (closed, None):
        monkeypatch.setattr(sys, "stderr", broken)
        watch = Watch.from_env(job="mine")
        with watch.step():
            pass
        watch.close()
        assert len(rows_in(rings, Kind.STEP)) == 1
    monkeypatch.undo()
