"""The variables of a process's start are read from the kernel."""

from __future__ import annotations

from pathlib import Path

from stepwatch.signals.processes import environment_at_start


def test_variables_of_the_start_are_read_and_unknown_ones_are_none(tmp_path: Path) -> None:
    assert environment_at_start(tmp_path) == {}
    (tmp_path / "self").mkdir()
    (tmp_path / "self/environ").write_bytes(b"RANK=0\0OPTIONS=a=b\0EMPTY=\0stray\0")
    assert environment_at_start(tmp_path) == {"RANK": "0", "OPTIONS": "a=b", "EMPTY": ""}
