"""Files that stay open are read from their start, and anew where another took their place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stepwatch.agent.kernel_files import KernelFiles, read_once


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_value_is_the_newest_one(tmp_path: Path) -> None:
    files, place = KernelFiles(), tmp_path / "counter"
    for value in ("7", "812", "9"):
        place.write_text(f"{value}\n")
        assert (files.word(str(place)), files.number(str(place))) == (value, int(value))
    for nonsense in ("", "-7", "12 boats", "9" * 30):
        place.write_text(nonsense)
        assert files.number(str(place)) is None
    assert files.number(str(tmp_path / "missing")) is None
    assert files.word_or(str(tmp_path), "none") == "none", "a directory holds no value"


def test_a_table_longer_than_a_page_is_read_whole() -> None:
    table = Path("/proc/kallsyms")
    if len(table.read_bytes()) < 100_000:
        pytest.skip("this kernel lists no symbols")
    for text in (KernelFiles().text(str(table)), read_once(str(table))):
        assert text.count("\n") == table.read_text().count("\n")


def test_a_process_that_ended_is_gone_and_nothing_stays_open_for_it() -> None:
    files, opened_before = KernelFiles(), opened()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        place = f"/proc/{child.pid}/stat"
        assert files.word(place).split()[0] == str(child.pid)
        assert opened() > opened_before
        child.communicate(b"\n")
    with pytest.raises((FileNotFoundError, ProcessLookupError)):
        files.word(place)
    assert opened() == opened_before


def test_descriptors_are_bounded_and_given_back(tmp_path: Path) -> None:
    opened_before, files = opened(), KernelFiles(most_open=4)
    for number in range(40):
        (tmp_path / str(number)).write_text(str(number))
        assert files.word(str(tmp_path / str(number))) == str(number)
    assert opened() == opened_before + 4
    files.close()
    assert opened() == opened_before
    for _ in range(50):
        KernelFiles().word(str(tmp_path / "1"))
    assert opened() == opened_before, "one that nobody holds closes its own"


def test_a_pipe_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert KernelFiles().number(str(tmp_path / "pipe")) is None
