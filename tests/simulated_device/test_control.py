"""The settings of a device are shared through a file."""

from __future__ import annotations

import math
import re
from pathlib import Path

from .build import SOURCE
from .control import FIELDS, INITIAL, Control, Hang


def test_a_new_file_is_a_healthy_device(tmp_path: Path) -> None:
    control = Control(tmp_path / "control")
    assert tuple(control.get(field) for field in FIELDS) == INITIAL


def test_a_change_is_seen_by_whoever_has_the_file(tmp_path: Path) -> None:
    one, other = Control(tmp_path / "control"), Control(tmp_path / "control")
    one.set_slow(3)
    one.set_link(0.5)
    one.set_hang(Hang.COLLECTIVE)
    one.set_lost()
    assert [other.get(field) for field in ("slow", "link_seconds", "hang", "lost")] == [
        3,
        0.5,
        2,
        1,
    ]
    assert other.get("bytes_per_second") == math.inf


def test_the_layout_is_that_of_the_compiled_device() -> None:
    header = (SOURCE / "settings.h").read_text()
    assert tuple(re.findall(r"^  double (\w+);", header, re.MULTILINE)) == FIELDS
    hang = re.search(r"enum class Hang \{(.+)\}", header)
    assert hang is not None
    compiled = {name: int(number) for name, number in re.findall(r"(\w+) = (\d)", hang[1])}
    assert compiled == {each.name.lower(): each.value for each in Hang}
