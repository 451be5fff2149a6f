"""The one way to the terminal: colour of words for a state passes, and nothing else does."""

from __future__ import annotations

import io
import os
import pty
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stepwatch.cli import terminal, text
from stepwatch.cli.main import main
from stepwatch.cli.terminal import MARKS, Guarded, guarded, painted, redraw, shown
from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
HOSTILE = "\x1b]52;c;ZQ==\x07\x1b[31mx\x9b2J\u202e\rover"


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def opened(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A terminal that can show colours, in place of stdout."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    return screen


def test_a_state_is_coloured_and_data_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = opened(monkeypatch)
    with guarded(for_good=False):
        print(painted("FAILED"), HOSTILE, end="")
    assert screen.getvalue() == (
        "\x1b[31mFAILED\x1b[0m \ufffd]52;c;ZQ==\ufffd\ufffd[31mx\ufffd2J\ufffd\ufffdover"
    )


def test_data_with_marks_colours_no_other_word(monkeypatch: pytest.MonkeyPatch) -> None:
    opened(monkeypatch)
    begin_mark, end_mark = MARKS
    assert shown(f"{begin_mark}root{end_mark}") == "root"
    for marked_text in (
        f"{begin_mark}\x1b[2J{end_mark}",
        f"{begin_mark}ok",
        f"{end_mark}ok{begin_mark}",
    ):
        assert not set(shown(marked_text)) & {*MARKS, "\x1b"}, marked_text
    assert text.table(["a"], [[f"{begin_mark}ok{end_mark}"]]).count(begin_mark) == 0


def test_what_is_no_terminal_gets_no_colour(capsys: pytest.CaptureFixture[str]) -> None:
    with guarded(for_good=False):
        print(f"{MARKS[0]}failed{MARKS[1]} {painted('failed')}")
    assert capsys.readouterr().out == "failed failed\n"


def test_streams_are_as_before_afterwards_and_guarded_once() -> None:
    streams_before = sys.stdout, sys.stderr
    with guarded(for_good=False), guarded(for_good=False):
        assert isinstance(sys.stdout, Guarded) and not isinstance(sys.stdout.behind, Guarded)
        assert not hasattr(sys.stdout, "buffer"), "there is no way around"
    assert (sys.stdout, sys.stderr) == streams_before


def test_a_redrawn_line_stays_one_line_without_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = opened(monkeypatch)
    with guarded(for_good=False):
        redraw(f"step 3{HOSTILE}\nand more")
        redraw("")
    first, second = screen.getvalue().split("\r\x1b[K")[1:]
    assert first.startswith("step 3\ufffd]52") and "\n" not in first and second == ""


def test_a_terminal_of_another_encoding_is_no_error() -> None:
    behind = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    Guarded(behind).write("a \u2192 \x1bb\ud800")
    behind.seek(0)
    assert behind.read() == "a ? ?b?"


def test_every_error_and_traceback_of_a_process_passes(tmp_path: Path) -> None:
    code = (
        "import sys; from stepwatch.cli import main as m\n"
        "def broken(words): raise ValueError(words[0])\n"
        "m.dispatch = broken\n"
        f"sys.argv = ['stepwatch', {HOSTILE!r}]\n"
        "m.main()\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert process.returncode == 1 and b"ValueError: " in process.stderr
    assert not set(process.stderr) & {0x1B, 0x07, 0x0D} and b"\xc2\x9b" not in process.stderr


def test_a_real_terminal_sees_no_command(tmp_path: Path) -> None:
    ours, terminal_end = pty.openpty()
    words = [sys.executable, "-m", "stepwatch.cli", "status", "--store", f"{tmp_path}/{HOSTILE}"]
    environ = {**os.environ, "TERM": "xterm"}
    process = subprocess.run(
        words, stdout=terminal_end, stderr=terminal_end, env=environ, check=False
    )
    os.close(terminal_end)
    output = os.read(ours, 65_536)
    os.close(ours)
    assert process.returncode == 2 and b"there is no store" in output
    assert b"\x1b" not in output and b"\x07" not in output and b"\xc2\x9b" not in output


def test_no_part_of_the_command_line_goes_around(capsys: pytest.CaptureFixture[str]) -> None:
    around = ("sys.stdout.buffer", "sys.__stdout__", "sys.__stderr__", "os.write(1", "os.write(2")
    for path in (ROOT / "collector/stepwatch/cli").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        assert [name for name in around if name in source] == [], path
        if path != Path(terminal.__file__):
            assert "\\x1b" not in source and "logging.basicConfig" not in source, path
    assert main(["--version"]) == 0 and capsys.readouterr().out.startswith("stepwatch ")


def test_the_log_of_a_collector_on_a_terminal_is_text(tmp_path: Path) -> None:
    ours, terminal_end = pty.openpty()
    port = free_port()
    words = [sys.executable, "-m", "stepwatch.cli", "collector", "--port", str(port)]
    words += ["--store", str(tmp_path / "store.db")]
    process = subprocess.Popen(words, stdout=terminal_end, stderr=terminal_end)
    os.close(terminal_end)
    try:
        until("the collector to listen", lambda: answers(port))
        output = os.read(ours, 65_536)
        while b"Invalid HTTP request" not in output:
            output += os.read(ours, 65_536)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"listening on" in output and b"\x1b" not in output and b"\xef\xbf\xbd" not in output


def answers(port: int) -> bool:
    """Whether something takes a request that is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1.0) as opened:
            opened.sendall(b"\x1b[2J no HTTP\r\n\r\n")
            return bool(opened.recv(100))
    except OSError:
        return False
