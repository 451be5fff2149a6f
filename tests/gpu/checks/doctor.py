"""`stepwatch doctor` and the agent on a node with a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.gpu.finding import Finding
from tests.gpu.place import Place
from tests.gpu.site import services
from tests.services import ROOT

BURN_SECONDS = 4
WATCHED_SECONDS = 10.0


def check(place: Place) -> Iterator[Finding]:
    """Yield the doctor's results, then the agent's cost on this node."""
    words = [sys.executable, "-m", "stepwatch.cli", "doctor", "--burn", str(BURN_SECONDS), "--json"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=ROOT)
    try:
        document = json.loads(ended.stdout)
    except ValueError:
        yield Finding("doctor", (ended.stderr or ended.stdout)[-300:], "JSON", False)
        return
    for result in document["checks"]:
        yield Finding(f"doctor: {result['check']}", f"{result['outcome']} {result['text']}")
    status = ended.returncode
    yield Finding("doctor: exit status", str(status), "0 or 1", status in (0, 1))
    yield from _agent()


def _agent() -> Iterator[Finding]:
    with services() as site:
        pid = _pid_of("agent")
        time.sleep(4.0)
        used_before, began = _cpu_seconds(pid), time.monotonic()
        time.sleep(WATCHED_SECONDS)
        share = (_cpu_seconds(pid) - used_before) / (time.monotonic() - began)
        yield Finding(
            "agent with its probes' processes, no rank on the node: share of a core",
            f"{share:.2%}",
            "1 %",
            figures={"share": share},
        )
        log = site.log_of("agent").read_text(errors="replace")
        yield Finding("agent: what it printed", log.strip()[-400:] or "nothing")


def _pid_of(verb: str) -> int:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--spool" in words and verb.encode() in words:
                return int(entry.name)
    raise LookupError(f"no {verb} is running")


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its children so far."""
    total = 0.0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(entry.name) == pid or int(fields[1]) == pid:
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total
