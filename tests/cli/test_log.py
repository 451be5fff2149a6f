"""The log of agents and collectors: text for readers, one JSON object a line for programs."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stepwatch.cli.main import USAGE, main
from tests.collector.process import Process
from tests.waiting import until

HOSTILE = 'a "quoted" \x1b[31m text\nwith\u2028lines \ud800 and {braces}'


def logged(*lines: str) -> list[str]:
    """The lines on stderr of a process that starts its log and runs this code."""
    code = "\n".join(["import logging", "from stepwatch.cli.terminal import start_log", *lines])
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr.isascii()
    return ran.stderr.splitlines()


def test_a_line_is_an_object_whatever_it_quotes() -> None:
    (text,) = logged(
        'start_log("agent", form="json")',
        f'logging.getLogger("stepwatch.agent.relay").warning("from %s", {HOSTILE!a})',
    )
    line = json.loads(text)
    assert line.pop("time") > 1e9 and "\x1b" not in text
    assert line == {
        "level": "WARNING",
        "service": "stepwatch-agent",
        "logger": "stepwatch.agent.relay",
        "message": f"from {HOSTILE}",
    }


def test_tracebacks_warnings_and_ended_threads_are_objects() -> None:
    ended, warned, raised = map(
        json.loads,
        logged(
            "import threading, warnings",
            'start_log("collector", form="json")',
            'thread = threading.Thread(target=lambda: 1 / 0, name="evaluate")',
            "thread.start(); thread.join()",
            'warnings.warn("old")',
            "try:",
            "    {}[1]",
            "except KeyError:",
            '    logging.exception("lost")',
        ),
    )
    assert ended["level"] == "CRITICAL" and "evaluate" in ended["message"]
    assert "ZeroDivisionError" in ended["exception"]
    assert warned["logger"] == "py.warnings" and "old" in warned["message"]
    assert raised["message"] == "lost" and raised["exception"].endswith("KeyError: 1")


def test_text_is_the_default() -> None:
    (line,) = logged('start_log("agent")', 'logging.info("watching %s", "rings")')
    assert line.endswith(" agent INFO watching rings")


def test_an_unknown_format_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["agent", "--log-format", "xml"]) == USAGE
    monkeypatch.setenv("STEPWATCH_LOG_FORMAT", "yaml")
    assert main(["collector"]) == USAGE
    for line, word in zip(capsys.readouterr().err.splitlines(), ("xml", "yaml"), strict=True):
        assert word in line and "text or json" in line


def test_every_line_of_a_collector_is_an_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPWATCH_LOG_FORMAT", "json")
    process = Process(tmp_path)
    try:
        process.start()
        process.wait_ready()
        with socket.create_connection(("127.0.0.1", process.port)) as client:
            client.sendall(b"no HTTP\r\n\r\n")
            until("the refusal to be logged", lambda: b"Invalid HTTP" in process.log.read_bytes())
        assert process.end(signal.SIGTERM) == 0
    finally:
        process.end()
    found = [json.loads(line) for line in process.log.read_text().splitlines()]
    assert {line["service"] for line in found} == {"stepwatch-collector"}
    assert {line["logger"] for line in found} >= {"root", "uvicorn.error"}
