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
    writer, reader = Control(tmp_path / "control"), Control(tmp_path / "control")
    writer.set_slow(3)
    writer.set_link(0.5)
    writer.set_hang(Hang.COLLECTIVE)
    writer.set_lost()
    assert [reader.get(field) for field in ("slow", "link_seconds", "hang", "lost")] == [
        3,
        0.5,
        2,
        1,
    ]
    assert reader.get("bytes_per_second") == math.inf


def test_the_layout_is_that_of_the_compiled_device() -> None:
    header = (SOURCE / "settings.h").read_text()
    assert tuple(re.findall(r"^  double (\w+);", header, re.MULTILINE)) == FIELDS
    hang = re.search(r"enum class Hang \{(.+)\}", header)
    assert hang is not None
    compiled = {name: int(number) for name, number in re.findall(r"(\w+) = (\d)", hang[1])}
    assert compiled == {hang.name.lower(): hang.value for hang in Hang}
