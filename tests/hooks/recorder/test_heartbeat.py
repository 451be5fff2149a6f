"""The side thread makes a ring anew that was removed or cut while the rank ran."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.records import Kind
from tests.waiting import until


def steps(root: Path) -> list[int]:
    (path,) = find_rings(root)
    reader = RingReader(path)
    rows_by_kind = reader.read().rows
    reader.close()
    return (
        [int(step) for step in rows_by_kind[Kind.STEP]["step"]] if Kind.STEP in rows_by_kind else []
    )


def test_a_ring_directory_that_is_removed_comes_back_with_all_records(
    watch: Watch, rings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with watch.step():
            pass
    caplog.set_level(logging.WARNING, "stepwatch")
    shutil.rmtree(rings)
    until("a new ring", lambda: any(find_rings(rings)))
    with watch.step():
        pass
    assert steps(rings) == [0, 1, 2, 3]
    line = "was removed while the rank ran; recording continues in a new one"
    until("the line", lambda: line in caplog.text)
    assert str(rings) in caplog.text and watch.guard.errors == 0


CUT = """
import os, sys
from pathlib import Path
from stepwatch.hooks import Watch
from stepwatch.signals.blackbox import find_rings
from tests.waiting import until
watch = Watch.from_env(job="job")
with watch.step():
    pass
(path,) = find_rings(Path(sys.argv[1]))
size = path.stat().st_size
path.chmod(0o600)
os.truncate(path, 100)
until("a new ring", lambda: path.stat().st_size == size)
with watch.step():
    pass
watch.close()
"""


def test_a_ring_that_is_cut_while_the_rank_waits_ends_no_rank(rings: Path) -> None:
    """In a process of its own: a store before the new ring is there would end this one."""
    subprocess.run([sys.executable, "-c", CUT, str(rings)], check=True)
    assert steps(rings) == [1]


def test_a_directory_that_cannot_be_made_is_named_once(
    watch: Watch, rings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "stepwatch")
    shutil.rmtree(rings)
    rings.write_text("in the way")
    until("the line", lambda: "and no new one can be made" in caplog.text)
    assert str(rings) in caplog.text
    with watch.step():
        pass
    rings.unlink()
