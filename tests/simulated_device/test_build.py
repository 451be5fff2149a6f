"""The device is built once, also where several processes need it at once."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from . import build

COUNTING = """#!/bin/sh
echo called >> "{log}"
sleep 0.2
while [ $# -gt 0 ]; do
    if [ "$1" = -o ]; then : > "$2"; fi
    shift
done
"""


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that counts its calls in the returned file and writes empty files."""
    program, log = tmp_path / "compiler", tmp_path / "log"
    program.write_text(COUNTING.format(log=log))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    log.touch()
    monkeypatch.setenv("CXX", str(program))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return log


def _calls(log: Path) -> int:
    return len(log.read_text().splitlines())


def test_callers_at_once_build_once(compiler: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        built = {job.result() for job in [pool.submit(build.library) for _ in range(3)]}
    assert len(built) == 1
    assert built.pop().exists()
    assert _calls(compiler) == len(list(build.SOURCE.glob("*.cpp"))) + 1


def test_a_changed_file_alone_is_compiled_anew(
    compiler: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.cpp").write_text('#include "a.h"\n')
    (source / "a.h").write_text("")
    (source / "b.cpp").write_text("")
    monkeypatch.setattr(build, "SOURCE", source)
    first = build.library()
    assert _calls(compiler) == 3
    (source / "a.h").write_text("int changed;")
    assert build.library() != first
    assert _calls(compiler) == 5


def test_a_missing_compiler_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(build.BuildError, match=r"^[^\n]*no-such-compiler[^\n]*$"):
        build.library()


def test_source_that_does_not_compile_is_an_error_and_leaves_nothing(
    compiler: Path, tmp_path: Path
) -> None:
    Path(tmp_path / "compiler").write_text("#!/bin/sh\necho 'x.cpp:1: error: broken' >&2\nexit 1\n")
    with pytest.raises(build.BuildError, match="error: broken"):
        build.library()
    assert not list(build.cache_directory().rglob("*.so"))
