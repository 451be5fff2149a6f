"""Which core runs, and what is said where the compiled one does not."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks.core import choice
from stepwatch.signals.blackbox import Identity, RingReader, RingWriter
from stepwatch.signals.records import Kind

CORE = Path(choice.__file__).parent
BUILT = CORE / "_native.abi3.so"
SHOW = "from stepwatch.hooks.core import CORE; print(CORE)"
built = pytest.mark.skipif(not BUILT.exists(), reason="no compiled core was built: `make core`")


def run(program: str, **environ: str) -> tuple[str, list[str]]:
    """Run a program; return its output and the lines of its log."""
    words = [sys.executable, "-c", program]
    ran = subprocess.run(
        words, env={**os.environ, **environ}, capture_output=True, text=True, check=True
    )
    return ran.stdout.strip(), ran.stderr.splitlines()


@built
def test_the_compiled_core_runs_where_it_was_built() -> None:
    assert run(SHOW, STEPWATCH_CORE="") == ("native", [])
    assert run(SHOW, STEPWATCH_CORE="native") == ("native", [])


def test_the_plain_core_runs_where_it_is_asked_for() -> None:
    assert run(SHOW, STEPWATCH_CORE="python") == ("python", [])


def test_an_unknown_core_is_named_in_one_line() -> None:
    core, lines = run(SHOW, STEPWATCH_CORE="rust")
    assert core == ("native" if BUILT.exists() else "python")
    assert len(lines) == 1 and "STEPWATCH_CORE=rust is neither native nor python" in lines[0]
    assert lines[0].endswith("it is ignored")


def test_the_plain_core_runs_on_a_free_threaded_python() -> None:
    free_threaded = "import sys; sys.abiflags = 't'; " + SHOW
    assert run(free_threaded, STEPWATCH_CORE="") == ("python", [])
    core, lines = run(free_threaded, STEPWATCH_CORE="native")
    assert core == "python"
    assert len(lines) == 1 and "needs an interpreter lock" in lines[0]


def copy_of_the_hooks(folder: Path) -> Path:
    """Copy the package's hooks and signals, without a compiled core."""
    package = folder / "stepwatch"
    for part in ("hooks", "signals"):
        shutil.copytree(
            CORE.parents[1] / part, package / part, ignore=shutil.ignore_patterns("_native*")
        )
    return package / "hooks/core"


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda file: file.write_bytes(b"no library"), id="no library"),
        pytest.param(lambda file: file.touch(), id="empty"),
        pytest.param(lambda file: file.mkdir(), id="a folder"),
    ],
)
def test_a_core_that_does_not_load_falls_back_with_one_line(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    spoil(copy_of_the_hooks(tmp_path) / BUILT.name)
    core, lines = run(SHOW, PYTHONPATH=str(tmp_path), STEPWATCH_CORE="native")
    assert core == "python"
    assert len(lines) == 1 and lines[0].endswith("the hooks run as plain Python"), lines


def test_a_folder_that_cannot_be_written_is_named_without_a_traceback(tmp_path: Path) -> None:
    folder = copy_of_the_hooks(tmp_path)
    (folder / BUILT.name).mkdir()
    words = [sys.executable, str(folder / "compile.py")]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("the compiled core is not built: "), ran.stderr


@built
def test_a_core_of_other_sources_is_refused(tmp_path: Path) -> None:
    folder = copy_of_the_hooks(tmp_path)
    shutil.copy(BUILT, folder)
    sampling = folder / "sampling.py"
    sampling.write_text(sampling.read_text().replace("EVERY = 8", "EVERY = 9"))
    core, lines = run(SHOW, PYTHONPATH=str(tmp_path))
    assert core == "python"
    assert len(lines) == 1 and "it was built from other sources" in lines[0]


def test_without_a_core_one_line_says_so(tmp_path: Path) -> None:
    copy_of_the_hooks(tmp_path)
    assert run(SHOW, PYTHONPATH=str(tmp_path), STEPWATCH_CORE="")[1] == []
    core, lines = run(SHOW, PYTHONPATH=str(tmp_path), STEPWATCH_CORE="native")
    assert core == "python" and len(lines) == 1 and "no compiled core was built" in lines[0]


def loaded(file: Path) -> Any:
    """Load a compiled core a second time, from another file."""
    spec = importlib.util.spec_from_file_location("_native", file)
    assert spec is not None and spec.loader is not None
    core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(core)
    return core


@built
def test_two_compiled_cores_in_one_process_write_their_own_rings(tmp_path: Path) -> None:
    writers = []
    for number in range(2):
        (folder := tmp_path / str(number)).mkdir()
        core = loaded(Path(shutil.copy(BUILT, folder)))
        ring = RingWriter(folder / "0", Identity("job", 0, number, 2, "node", 1, number + 1))
        slots = ring.write_through(core.Slots)
        assert type(slots) is core.Slots
        writers.append(ring)
    assert len({type(ring._slots) for ring in writers}) == 2
    for turn in range(5):
        for number, ring in enumerate(writers):
            ring.write(Kind.LIFECYCLE, turn, 1_000 + turn, number, turn, b"")
    for number, ring in enumerate(writers):
        reader = RingReader(tmp_path / str(number) / "0")
        rows = reader.read().rows[Kind.LIFECYCLE]
        assert rows["event"].tolist() == [number] * 5
        assert rows["seq"].tolist() == [1, 2, 3, 4, 5]
        reader.close()
        ring.close()


@built
def test_slots_refuse_memory_that_is_too_small(tmp_path: Path) -> None:
    slots = loaded(BUILT).Slots
    for size, capacity in ((4096, 1), (4096 + 128, 2), (0, 1), (8192, 1 << 63), (8192, 0)):
        with pytest.raises(ValueError, match="smaller"):
            slots(bytearray(size), capacity, {})
    with pytest.raises((BufferError, TypeError)):
        slots(bytes(8192), 1, {})
