"""Reads a rank's Python stack with py-spy, without pausing it.

`--nonblocking` reads the running process's memory, so the trainer never stops. It also works on a
stopped process (py-spy cannot attach to one that SIGSTOP holds).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from stepwatch.signals.records import DTYPES, Kind

SECONDS = 4.0
MAX_BYTES = 4 << 20
MAX_FRAMES = 64
_ROOM = DTYPES[Kind.DIAGNOSIS]["stack"].itemsize
_CALLED_FROM, _MORE = " < ", " < ..."
MISSING = "py-spy is missing on this node: pip install 'stepwatch[agent]'"
REFUSED = "may not read the process: give the agent CAP_SYS_PTRACE, or the rank's user"
FOREIGN = "its process ended, or its id is another's here (pid namespace, user)"
_LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3.", "stepwatch/hooks/", "<frozen")


class Stack(NamedTuple):
    """A process's position: function and line in the user's innermost frame, and all frames.

    `owner` says whether a thread held the interpreter lock; None if nothing could be read, with the
    reason in `note`. `text` has the innermost frame first.
    """

    function: str = ""
    line: str = ""
    text: str = ""
    owner: bool | None = None
    note: str = ""


def find_py_spy() -> str | None:
    """Return the py-spy next to this Python, else the one on PATH."""
    sibling = Path(sys.executable).with_name("py-spy")
    return str(sibling) if sibling.exists() else shutil.which("py-spy")


def dump(pid: int, py_spy: str | None, seconds: float = SECONDS) -> Stack:
    """Return process `pid`'s current stack."""
    if py_spy is None:
        return Stack(note=MISSING)
    words = [py_spy, "dump", "--json", "--nonblocking", "--pid", str(pid)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            ended = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Stack(note=f"py-spy did not answer within {seconds:.0f} s")
        except OSError as error:
            return Stack(note=f"cannot run py-spy: {error.strerror}")
        out.seek(0)
        err.seek(0)
        if ended.returncode:
            return Stack(note=failure_of(err.read(4096).decode("utf-8", "replace")))
        return parse(out.read(MAX_BYTES))


def parse(body: bytes) -> Stack:
    """Parse `py-spy dump --json`: the thread that holds the GIL, else the main thread."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    threads = [item for item in document if _is_thread(item)] if type(document) is list else []
    if not threads:
        return Stack(note="py-spy printed no stack")
    owners = [item for item in threads if item.get("owns_gil") is True]
    mains = [item for item in threads if item.get("thread_name") == "MainThread"]
    chosen = (owners or mains or threads)[0]
    frames = [frame for frame in chosen["frames"][:MAX_FRAMES] if isinstance(frame, dict)]
    user_frames = [frame for frame in frames if not _is_library(frame)]
    innermost = next(iter(user_frames or frames), {})
    return Stack(
        _name(innermost), _place(innermost) if innermost else "", _chain(frames), bool(owners)
    )


def _chain(frames: list[dict[str, Any]]) -> str:
    """Join frames, innermost first, as many as fit into a record."""
    chain = ""
    for frame in frames:
        longer = f"{chain}{_CALLED_FROM if chain else ''}{_name(frame)} {_place(frame)}"
        if len(longer.encode()) > _ROOM - len(_MORE):
            return chain + _MORE
        chain = longer
    return chain


def failure_of(output: str) -> str:
    """Return why py-spy failed, from its error output, in one line."""
    lowered = output.lower()
    if "permission denied" in lowered or "operation not permitted" in lowered:
        return REFUSED
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return f"py-spy failed: {lines[0] if lines else 'without a reason'}"


def _is_thread(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("frames"), list)


def _is_library(frame: dict[str, Any]) -> bool:
    return any(part in str(frame.get("filename", "")) for part in _LIBRARIES)


def _name(frame: dict[str, Any]) -> str:
    return str(frame.get("name", ""))[:200]


def _place(frame: dict[str, Any]) -> str:
    path = str(frame.get("short_filename") or frame.get("filename") or "?")
    # A long path's end is more specific than its beginning.
    return f"{path[-100:]}:{frame.get('line', 0)}"
