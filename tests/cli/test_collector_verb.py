"""`stepwatch collector` as a process: what it refuses, and how it ends."""

from __future__ import annotations

import signal
import socket
import sqlite3
from pathlib import Path

import httpx
import pytest

from stepwatch.cli.main import PROBLEM, main
from tests.collector.made import JOB, body, run_segments
from tests.collector.process import Process


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that `stepwatch collector` ends with."""
    assert main(["collector", *words]) == PROBLEM
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("stepwatch: ")]
    assert len(lines) == 1 and "Traceback" not in captured.err
    return lines[0]


@pytest.fixture(autouse=True)
def handlers() -> object:
    """The verb takes SIGTERM over; give it back."""
    handler_before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, handler_before)


def test_a_port_in_use(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = str(listener.getsockname()[1])
        line = refused(capsys, "--port", port, "--store", str(tmp_path / "s.db"))
    assert port in line and "in use" in line and "--port" in line
    assert not (tmp_path / "s.db").exists()


@pytest.mark.parametrize("port", ["65536", "-1", "99999999999"])
def test_no_port_at_all(capsys: pytest.CaptureFixture[str], tmp_path: Path, port: str) -> None:
    assert port in refused(capsys, "--port", port, "--store", str(tmp_path / "s.db"))


def test_stores_that_cannot_be(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no database" * 1000)
    for store in ("/proc/none/s.db", str(text), f"{text}/s.db", str(tmp_path), "nonsense://x"):
        line = refused(capsys, "--port", "0", "--store", store)
        assert "--store" in line


def test_a_newer_store_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    connection = sqlite3.connect(path)
    connection.execute("create table meta (key varchar(32) primary key, value varchar(64))")
    connection.execute("insert into meta values ('schema', '99')")
    connection.commit()
    connection.close()
    assert "schema 99" in refused(capsys, "--port", "0", "--store", str(path))


def test_beyond_loopback_a_token_is_needed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.7"):
        line = refused(capsys, "--host", host, "--port", "0", "--store", str(tmp_path / "s.db"))
        assert "-token-file" in line
    empty = tmp_path / "empty"
    empty.write_text("\n")
    assert "empty" in refused(capsys, "--token-file", str(empty), "--store", str(tmp_path / "s.db"))


def test_sigterm_is_a_normal_end_and_keeps_everything(collector: Process) -> None:
    assert collector.send(body(run_segments(30))).status_code == 200
    assert collector.end(signal.SIGTERM) == 0
    assert "Traceback" not in collector.log.read_text()
    assert main(["status", JOB, "--store", str(collector.store)]) == 0


def test_interrupted_is_130(collector: Process) -> None:
    assert collector.end(signal.SIGINT) == 130
    assert "Traceback" not in collector.log.read_text()


def test_a_store_removed_under_it_is_503_and_then_works_again(collector: Process) -> None:
    """The agent spools on; nothing is acknowledged that is not stored."""
    database = sqlite3.connect(collector.store)
    database.execute("alter table segment rename to away")
    database.commit()
    refusal = collector.send(body(run_segments(5)))
    assert refusal.status_code == 503 and int(refusal.headers["retry-after"]) > 0
    database.execute("alter table away rename to segment")
    database.commit()
    database.close()
    assert collector.send(body(run_segments(5))).json()["verdicts"][0]["verdict"] == "accepted"
    job = httpx.get(f"{collector.url}/v1/jobs/{JOB}").json()
    assert job["step"] == 4
