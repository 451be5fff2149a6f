"""Last lines of ranks that ended are sent once, when they are whole; of one that lives, none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stepwatch.agent.app import Agent
from stepwatch.agent.rings.last_lines import EMPTY, MOST_LINES, NOT_KEPT
from stepwatch.signals.processes import start_ticks
from stepwatch.signals.records import Kind
from stepwatch.signals.stderr import line_files
from tests.agent.conftest import Rank, round_of, spooled
from tests.waiting import until

MakeAgent = Callable[..., Agent]
RAISED = "ValueError: no"


class Process:
    """A rank's process, which ends when its stdin does, and its ring."""

    def __init__(self, rings: Path, code: int = 3) -> None:
        program = f"import sys; sys.stdin.read(); sys.exit({code})"
        self.popen = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
        pid = self.popen.pid
        self.start = start_ticks(pid)
        self.rank = Rank(rings, process=(pid, self.start))
        self.folder = rings / line_files.FOLDER

    def keep(self, *lines: str, final: bool = True) -> Path:
        """Keep lines as its relay does; the ring of the test names no pid namespace."""
        self.folder.mkdir(exist_ok=True)
        path = self.folder / line_files.Writer(0, self.popen.pid, self.start).name
        line_files.write(path, line_files.SavedLines(lines, final))
        return path

    def end(self, agent: Agent) -> None:
        """End it, and wait until the agent has seen it."""
        self.popen.communicate(timeout=60)
        ring_id = self.rank.ring.identity.ring_id
        until("the end is seen", lambda: agent.exits.exit_of(ring_id), 30.0)


def texts(agent: Agent) -> list[tuple[int, int, str]]:
    """(kept, place, text) of every LAST_LINE row that was spooled."""
    tables = [part[Kind.LAST_LINE] for part in spooled(agent) if Kind.LAST_LINE in part]
    rows = np.concatenate(tables) if tables else ()
    return [(int(row["kept"]), int(row["place"]), bytes(row["text"]).decode()) for row in rows]


def begun(rings: Path, make_agent: MakeAgent, code: int = 3) -> tuple[Process, Agent]:
    process, agent = Process(rings, code), make_agent()
    process.rank.steps(1)
    agent.poll()
    round_of(agent)
    return process, agent


def test_lines_of_a_rank_that_lives_stay_and_of_one_that_ended_are_sent_once(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    process, agent = begun(tmp_path / "rings", make_agent)
    process.keep("step 1", RAISED, "bye")
    round_of(agent)
    assert texts(agent) == []
    process.end(agent)
    for _ in range(3):
        round_of(agent)
    assert texts(agent) == [(1, 0, RAISED), (1, 1, "bye")]


def test_lines_that_are_still_to_come_are_waited_for(tmp_path: Path, make_agent: MakeAgent) -> None:
    process, agent = begun(tmp_path / "rings", make_agent)
    process.keep("step 1", final=False)
    process.end(agent)
    round_of(agent)
    assert texts(agent) == []
    process.keep("step 1", *[f"Key{number}Error: x" for number in range(9)])
    round_of(agent)
    assert [text for _, _, text in texts(agent)] == [
        f"Key{number}Error: x" for number in range(5, 9)
    ]
    assert len(texts(agent)) == MOST_LINES


def test_a_child_that_keeps_stderr_open_holds_nothing_up_for_long(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    process, agent = begun(tmp_path / "rings", make_agent)
    process.keep(RAISED, final=False)
    process.end(agent)

    def sent() -> bool:
        round_of(agent)
        return bool(texts(agent))

    until("it is sent", sent)
    assert texts(agent) == [(1, 0, RAISED)]


def test_a_rank_that_ended_cleanly_has_none(tmp_path: Path, make_agent: MakeAgent) -> None:
    process, agent = begun(tmp_path / "rings", make_agent, 0)
    process.keep(RAISED)
    process.end(agent)
    round_of(agent)
    assert texts(agent) == []


def test_why_there_are_none_is_sent(tmp_path: Path, make_agent: MakeAgent) -> None:
    process, agent = begun(tmp_path / "rings", make_agent)
    process.end(agent)
    round_of(agent)
    assert texts(agent) == [(0, 0, NOT_KEPT)]


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff" * 99, b"[" * 100_000])
def test_a_file_that_is_none_of_ours_is_no_file(
    tmp_path: Path, make_agent: MakeAgent, content: bytes
) -> None:
    process, agent = begun(tmp_path / "rings", make_agent)
    process.keep().write_bytes(content)
    process.end(agent)
    round_of(agent)
    assert texts(agent) == [(0, 0, NOT_KEPT)]


def test_a_rank_that_wrote_nothing_did_not_lose_its_lines(
    tmp_path: Path, make_agent: MakeAgent
) -> None:
    process, agent = begun(tmp_path / "rings", make_agent)
    process.keep()
    process.end(agent)
    round_of(agent)
    assert texts(agent) == [(0, 0, EMPTY)]


def test_what_could_not_be_spooled_is_sent_later(tmp_path: Path, make_agent: MakeAgent) -> None:
    process, agent = begun(tmp_path / "rings", make_agent)
    process.keep(RAISED)
    process.end(agent)
    numbers = range(1, 9)
    in_the_way = [agent.spool.folder / f".{number:016d}.seg.{os.getpid()}" for number in numbers]
    for path in in_the_way:
        path.mkdir()
    round_of(agent)
    assert texts(agent) == []
    for path in in_the_way:
        path.rmdir()
    round_of(agent)
    assert texts(agent) == [(1, 0, RAISED)]
