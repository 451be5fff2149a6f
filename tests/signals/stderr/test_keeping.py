"""The last lines outlive their process, the user sees the same bytes, and nothing harms it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from stepwatch.signals import places
from stepwatch.signals.stderr import line_files
from tests.waiting import until

from .programs import command, environment, files, lines_of, ran

ENDS = {
    "an exception": ("raise ValueError('no')", 1, "ValueError: no"),
    "killed": ("os.write(2, b'last\\n'); os.kill(os.getpid(), 9)", -9, "last"),
    "aborted": ("os.write(2, b'what():  no\\n'); os.abort()", -6, "what():  no"),
    "no newline": ("os.write(2, b'half'); os._exit(3)", 3, "half"),
    "a child": ("os.system('echo of a child >&2'); os._exit(4)", 4, "of a child"),
    "a crash": ("import faulthandler; faulthandler.enable(); faulthandler._sigsegv()", -11, None),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_last_lines_outlive_the_process_however_it_ends(tmp_path: Path, name: str) -> None:
    program, code, last = ENDS[name]
    ended = ran(tmp_path, program)
    assert ended.returncode == code
    lines = lines_of(tmp_path)
    if last is None:
        assert "Fatal Python error: Segmentation fault" in lines
    else:
        assert lines[-1] == last and ended.stderr.rstrip().endswith(last.encode())
    assert files(tmp_path)[0].stat().st_mode & 0o777 == 0o600


def test_every_byte_reaches_the_user_in_its_order(tmp_path: Path) -> None:
    program = """
for at in range(20_000):
    os.write(2, b"%d \\x1b[3%dm\\xff\\x00\\r" % (at, at % 8) * 3)
os.write(2, b"x" * 3_000_000)
"""
    ended = ran(tmp_path, program)
    wanted = b"".join(
        b"%d \x1b[3%dm\xff\x00\r" % (number, number % 8) * 3 for number in range(20_000)
    )
    assert ended.stderr == wanted + b"x" * 3_000_000
    assert lines_of(tmp_path) == []
    assert files(tmp_path)[0].stat().st_size < 1 << 16


def relay_of(process: subprocess.Popen[bytes]) -> int:
    """Return the relay of a process: the other process with its command line."""
    wanted = Path(f"/proc/{process.pid}/cmdline").read_bytes()
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    for pid in pids:
        try:
            if pid != process.pid and Path(f"/proc/{pid}/cmdline").read_bytes() == wanted:
                return pid
        except OSError:
            continue
    return 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_outlives_its_relay_and_the_user_sees_all(tmp_path: Path, number: int) -> None:
    program = """
assert sys.stdin.readline()
for at in range(40_000):
    os.write(2, b"%d and more words, so that no pipe could hold all of it\\n" % at)
print("done", flush=True)
"""
    with (
        (tmp_path / "seen").open("wb") as errors,
        subprocess.Popen(
            command(program),
            env=environment(tmp_path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdout and process.stdin
        assert process.stdout.readline().endswith(b"True\n")
        relay = until("the relay", lambda: relay_of(process))
        os.kill(relay, number)
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"done\n"
        assert process.wait(60) == 0
    ends = "so that no pipe could hold all of it"
    wanted = [f"{line_number} and more words, {ends}" for line_number in range(40_000)]

    def received_lines() -> list[str]:
        return (tmp_path / "seen").read_text().splitlines()

    until("every line", lambda: len(received_lines()) >= len(wanted))
    assert sorted(received_lines()) == sorted(wanted), "nothing is lost, nothing is there twice"


def test_whoever_reads_stderr_no_more_ends_nobody(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    program = "os.write(2, b'a' * 200_000); os.write(2, b'\\nlast\\n'); print('done', flush=True)"
    with subprocess.Popen(
        command(program), env=environment(tmp_path), stdout=subprocess.PIPE, stderr=writing
    ) as process:
        os.close(writing)
        os.close(reading)
        assert process.stdout and process.stdout.read().endswith(b"done\n")
        assert process.wait(60) == 0
    assert lines_of(tmp_path)[-1] == "last"


def test_a_terminal_stays_one_and_shows_the_same_bytes(tmp_path: Path) -> None:
    master, terminal = pty.openpty()
    program = "os.write(2, b'\\x1b[31mred\\x1b[0m\\rbar\\n'); print(os.isatty(2), flush=True)"
    with subprocess.Popen(
        command(program), env=environment(tmp_path), stdout=subprocess.PIPE, stderr=terminal
    ) as process:
        os.close(terminal)
        assert process.stdout and process.stdout.read().endswith(b"True\n")
        assert process.wait(60) == 0
    assert os.read(master, 4096) == b"\x1b[31mred\x1b[0m\rbar\r\n", "\\r is the real terminal's"
    os.close(master)
    assert lines_of(tmp_path) == ["red", "bar"]


def test_a_secret_of_the_environment_or_of_a_known_form_is_never_stored(tmp_path: Path) -> None:
    program = """
os.write(2, ("x" * 20_000 + "cannot log in with " + os.environ["DB_PASSWORD"]).encode() + b"\\n")
os.write(2, b"PermissionError: https://me:" + b"hush" + b"word@host/x\\n")
"""
    ended = ran(tmp_path, program, DB_PASSWORD="correct-horse")
    assert b"correct-horse" in ended.stderr, "what the user sees is not changed"
    assert lines_of(tmp_path)[-1].startswith("PermissionError: https")
    content = files(tmp_path)[0].read_bytes()
    assert b"correct" not in content and b"hushword" not in content


@pytest.mark.parametrize(
    ("program", "variables"),
    [("", {places.ENV_STDERR: "0"}), ("", {"STEPWATCH_DISABLE": "1"})],
)
def test_where_it_is_not_wanted_nothing_is_changed(
    tmp_path: Path, program: str, variables: dict[str, str]
) -> None:
    ended = ran(tmp_path, program + "os.write(2, b'x')", **variables)
    assert ended.stdout.endswith(b"False\n") and ended.stderr == b"x"
    assert files(tmp_path) == []


def test_without_a_place_for_the_file_every_byte_still_passes(tmp_path: Path) -> None:
    rings = tmp_path / "file"
    rings.write_text("no directory")
    ended = ran(rings, "os.write(2, b'all of it')")
    assert (ended.returncode, ended.stderr) == (0, b"all of it")


def test_old_files_of_processes_that_ended_are_removed(tmp_path: Path) -> None:
    folder = line_files.make_folder(tmp_path)
    process = line_files.this_process()
    live_file, ended = process.name, process._replace(start=1).name
    for name in (live_file, ended, "1-2-3"):
        line_files.write(folder / name, line_files.SavedLines(("x",), False))
        os.utime(folder / name, (0, 0))
    line_files.make_folder(tmp_path)
    assert sorted(path.name for path in files(tmp_path)) == sorted([live_file, "1-2-3"])
    for number in range(line_files.MOST_FILES + 5):
        line_files.write(folder / f"1-{number}-4", line_files.SavedLines((), True))
    line_files.make_folder(tmp_path)
    assert len(files(tmp_path)) == line_files.MOST_FILES


def test_a_file_of_somebody_else_or_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "1-2-3"
    line_files.write(path, line_files.SavedLines(("x\x1b[31m",), True))
    assert line_files.read(path, os.geteuid()).lines == ("x\ufffd[31m",)
    with pytest.raises(ValueError, match="another user"):
        line_files.read(path, os.geteuid() + 1)
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OSError):
        line_files.read(link)
    for content in (b"[]", b"{}", b"\xff", b'{"lines": 3}'):
        path.write_bytes(content)
        with pytest.raises(ValueError):
            line_files.read(path)
