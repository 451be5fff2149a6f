"""`stepwatch up`: everything on this machine in one command, and nothing of it left behind."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from stepwatch.cli.main import PROBLEM, main
from stepwatch.cli.processes import MARK, marked_processes
from stepwatch.cli.up.feed import Feed, stamped
from stepwatch.cli.up.plan import Plan, make_plan
from stepwatch.cli.up.restarts import MOST, WITHIN_SECONDS, Restarts
from stepwatch.cli.up.words import ready_text, stopped_text
from stepwatch.signals import presence
from stepwatch.signals.presence import CONNECTED, Presence
from tests.agent.conftest import Rank
from tests.waiting import until


class Running:
    """A `stepwatch up` on free ports, with its output so far."""

    def __init__(self, folder: Path) -> None:
        self.rings = folder / "rings"
        self.out = folder / "out"
        words = ["up", "--port", "0", "--agent-port", "0", "--dir", str(folder / "data")]
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "stepwatch.cli", *words, "--ring-dir", str(self.rings)],
                stdout=out,
                stderr=out,
            )

    def printed(self, words: str) -> str:
        """Wait until `words` are printed; returns the whole output."""
        until(f"{words!r} in {self.out}", lambda: words in self.out.read_text())
        return self.out.read_text()

    def children(self) -> dict[str, int]:
        """Verb and process id of what it started."""
        children_by_rank = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if parent == self.process.pid:
                children_by_rank[words[3]] = int(folder.name)
        return children_by_rank


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path)
    yield running
    running.process.kill()
    running.process.wait(30)


def test_it_becomes_ready_survives_a_crash_and_leaves_nothing_running(
    up: Running, tmp_path: Path
) -> None:
    ready = up.printed("Ctrl-C stops everything")
    page = next(line.split()[1] for line in ready.splitlines() if line.startswith("  page"))
    assert httpx.get(page, timeout=60.0).status_code == 200
    announced = presence.read(up.rings)
    assert announced is not None and (announced.page, announced.link) == (page, CONNECTED)
    children = up.children()
    assert sorted(children) == ["agent", "collector"] and announced.pid == children["agent"]
    identity = environment(children["agent"])[MARK]
    os.kill(children["collector"], signal.SIGKILL)
    up.printed("the collector ended (exit code -9)")
    rank = Rank(up.rings, job="mine")
    rank.steps(3)
    up.printed("job mine: running on 4 ranks")
    rank.ring.close()
    up.process.send_signal(signal.SIGINT)
    assert up.process.wait(240) == 0
    assert "Traceback" not in up.out.read_text()
    assert f"--store {tmp_path}/data/store.db" in up.out.read_text().splitlines()[-1]
    assert marked_processes(identity) == [] and presence.read(up.rings) is None


def test_its_link_is_printed_before_anything_heavy_is_imported(tmp_path: Path) -> None:
    program = """
import sys
from stepwatch.cli.verbs import up
class Heavy:
    def find_spec(self, name, path=None, target=None):
        if name in ("httpx", "sqlalchemy", "rich", "torch", "stepwatch.cli.up.run"):
            raise KeyboardInterrupt(name)
sys.meta_path.insert(0, Heavy())
from stepwatch.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
    words = ["up", "--port", "0", "--agent-port", "0", "--dir", str(tmp_path / "data")]
    words += ["--ring-dir", str(tmp_path / "rings")]
    ran = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert ran.stdout.startswith("page: http://127.0.0.1:"), ran
    assert ran.returncode == 130, ran


def environment(pid: int) -> dict[str, str]:
    """The environment of a process."""
    entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line with which it refuses to start."""
    assert main(["up", *words]) == PROBLEM
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_what_is_in_use_is_named_with_the_option_to_pass(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("--dir", str(tmp_path / "data"), "--ring-dir", str(tmp_path / "rings"))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        line = refused(capsys, "--port", port, *words)
        assert f"port {port} for the collector" in line and "pass another --port" in line
        line = refused(capsys, "--port", "0", "--agent-port", port, *words)
        assert "pass another --agent-port" in line
    assert "no such port" in refused(capsys, "--port", "99999", *words)
    free = ("--port", "0", "--agent-port", "0")
    assert "pass --dir DIR" in refused(capsys, *free, *words[2:], "--dir", "/proc/none")
    own_presence = Presence(os.getpid(), "", "http://here", CONNECTED, time.monotonic_ns(), {})
    presence.write(tmp_path / "rings", own_presence)
    line = refused(capsys, *free, *words)
    assert f"pid {os.getpid()}" in line and "http://here" in line and "--ring-dir" in line


def test_an_agent_that_was_killed_a_moment_ago_is_in_nobodys_way(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait(30)
    ended_presence = Presence(ended.pid, "", "", CONNECTED, time.monotonic_ns(), {})
    presence.write(tmp_path / "rings", ended_presence)
    arguments = argparse.Namespace(
        port=0, agent_port=0, dir=tmp_path / "data", ring_dir=tmp_path / "rings"
    )
    assert make_plan(arguments).rings == tmp_path / "rings"


def test_its_words_fit_a_narrow_terminal_and_hold_a_scrape_configuration() -> None:
    plan = Plan(8480, 8481, Path("/home/user/.local/state/stepwatch"), Path("/dev/shm/stepwatch"))
    words = ready_text(plan)
    assert max(map(len, words.splitlines())) <= 80
    yaml: Any = pytest.importorskip("yaml", reason="the configuration is read as Prometheus does")
    block = words[words.index("  scrape_configs:") : words.index("\n\nEvents follow")]
    (config,) = yaml.safe_load(block)["scrape_configs"]
    assert config["static_configs"] == [{"targets": ["127.0.0.1:8480", "127.0.0.1:8481"]}]
    assert "\n  stepwatch run -- python train.py" in words
    other_plan = Plan(1, 2, Path("/d"), Path("/tmp/r"))
    assert "STEPWATCH_RING_DIR=/tmp/r stepwatch run" in ready_text(other_plan)
    assert "STEPWATCH_COLLECTOR=http://127.0.0.1:1 stepwatch status" in ready_text(other_plan)
    assert "--store /d/store.db" in stopped_text(other_plan)


def test_a_crash_is_repaired_at_once_the_next_later_and_a_habit_not_at_all() -> None:
    restarts = Restarts()
    assert [restarts.delay(now) for now in (0.0, 1.0, 2.0, 3.0)] == [0.0, 1.0, 2.0, 4.0]
    assert restarts.delay(4.0) is None
    rare = Restarts()
    assert {rare.delay(WITHIN_SECONDS * day) for day in range(3 * MOST)} == {0.0}


def job(name: str, state: str, attempt: int = 0) -> dict[str, Any]:
    return {"job": name, "state": state, "attempt": attempt, "world_size": 8, "step": 90}


def incident(identity: str, state: str) -> dict[str, Any]:
    return {"id": identity, "state": state, "kind": "hang", "job": "j", "summary": "rank 2\nhangs"}


def test_the_feed_has_a_line_for_each_change() -> None:
    feed = Feed()
    history = [incident("c", "open"), incident("a", "resolved")]
    assert feed.news([job("old", "finished")], history) == ["OPEN hang c job j: rank 2\nhangs"]
    assert feed.news([job("old", "finished"), job("j", "running")], history) == [
        "job j: running on 8 ranks"
    ]
    now = [incident("d", "open"), incident("c", "resolved"), incident("a", "resolved")]
    assert feed.news([job("old", "finished"), job("j", "failed")], now) == [
        "job j: failed at step 90",
        "RESOLVED hang c job j: rank 2\nhangs",
        "OPEN hang d job j: rank 2\nhangs",
    ]
    assert feed.news([job("old", "finished"), job("j", "running", 1)], now) == [
        "job j, attempt 1: running on 8 ranks"
    ]
    assert feed.news([job("old", "finished"), job("j", "running", 1)], now) == []
    assert feed.news([job("old", "finished"), job("j", "stalled", 1)], now) == [
        "job j, attempt 1: stalled"
    ]


def test_the_feed_says_why_a_job_is_no_longer_evaluated() -> None:
    feed = Feed()
    feed.news([job("j", "running"), job("k", "running")], [])
    withheld = {**job("j", "quarantined"), "reason": "ValueError: odd"}
    stopped = {**job("k", "interrupted"), "step": None}
    assert feed.news([withheld, stopped], []) == [
        "job j: quarantined: ValueError: odd",
        "job k: interrupted",
    ]


def test_a_line_is_cut_to_the_terminal_and_whole_in_a_pipe() -> None:
    (cut,) = stamped(["x" * 200], 0.0, 79)
    assert len(cut) == 79 and cut.endswith("...")
    (stamped_line,) = stamped(["a\n b"], 0.0, None)
    assert stamped_line[8:] == " a b" and stamped_line[2] == stamped_line[5] == ":"
