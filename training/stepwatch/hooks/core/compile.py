"""Builds the compiled core beside itself: `python training/stepwatch/hooks/core/compile.py`.

The build of a wheel and of an editable install runs it too. It needs a C compiler and Python's
headers, and nothing of stepwatch. The result works for every CPython from 3.11 on.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
BUILT = FOLDER / "_native.abi3.so"
STAMP = FOLDER / "_native.sources"
"""The digest of the sources and the machine for which `BUILT` was made."""
_FLAGS = ["-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-strict-aliasing", "-fwrapv"]


def build() -> Path:
    """Return the compiled core, built again if its sources have changed.

    Raises:
        RuntimeError: there is no compiler, no header or no suitable interpreter, or the folder
            cannot be written; an earlier core is removed where possible, because it may differ
            from the sources.
    """
    try:
        return _build()
    except OSError as error:
        raise RuntimeError(str(error)) from error


def _build() -> Path:
    digest = _digest()
    if BUILT.exists() and STAMP.exists() and STAMP.read_text() == digest:
        return BUILT
    BUILT.unlink(missing_ok=True)
    STAMP.unlink(missing_ok=True)
    compiler = _compiler()
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".native-") as folder:
        made = Path(folder) / BUILT.name
        sources = [str(path) for path in _sources() if path.suffix == ".c"]
        words = [
            *compiler,
            *_FLAGS,
            f"-I{sysconfig.get_path('include')}",
            *sources,
            "-o",
            str(made),
        ]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise RuntimeError(f"{compiler[0]} failed: {ran.stderr[-2000:]}")
        # Moved into place whole: a process that imports it meanwhile never sees half a file.
        made.replace(BUILT)
    STAMP.write_text(digest)
    return BUILT


def _compiler() -> list[str]:
    """Return the start of the compiler's command.

    Raises:
        RuntimeError: a part that the build needs is missing.
    """
    if platform.python_implementation() != "CPython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise RuntimeError("it needs a CPython with its interpreter lock")
    if not sys.platform.startswith("linux") or sys.byteorder != "little":
        raise RuntimeError("it needs Linux on a little-endian machine")
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise RuntimeError("Python's headers are missing (Debian: python3-dev)")
    for words in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        command = shlex.split(words)
        if command and shutil.which(command[0]) is not None:
            return command
    raise RuntimeError("there is no C compiler (Debian: gcc)")


def _sources() -> list[Path]:
    return sorted((FOLDER / "native").glob("*.[ch]"))


def _digest() -> str:
    digest = hashlib.sha256(" ".join([*_FLAGS, platform.machine()]).encode())
    for path in _sources():
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


if __name__ == "__main__":
    try:
        print(build())
    except RuntimeError as error:
        sys.exit(f"the compiled core is not built: {error}")
