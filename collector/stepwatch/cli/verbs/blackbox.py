"""`stepwatch blackbox`: read rings after a crash, or during a run."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stepwatch.agent.rings.copies import FOLDER as COPIES
from stepwatch.agent.rings.processes import process_facts
from stepwatch.cli import text
from stepwatch.signals import places
from stepwatch.signals.blackbox import (
    DeviceLine,
    RingReader,
    closed_directories,
    find_rings,
    user_directories,
)
from stepwatch.signals.blackbox.copies import COPY_SUFFIX
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import RingError, UsageError
from stepwatch.signals.records import (
    ENDS,
    OP_NAMES,
    PHASE_NAMES,
    DeviceState,
    Kind,
    phase_name,
)

_ENDED = {"finish": "finished", "failure": "failed", "interrupt": "interrupted"}
EXAMPLE = "stepwatch blackbox llama-7b/0"
SPOOLS = (places.DEFAULT_SPOOL, Path("/var/lib/stepwatch/spool"))
"""Agents' spool directories: the default, and a service's."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "place",
        nargs="?",
        type=Path,
        default=places.ring_dir(),
        help="a ring file or directory, or JOB[/ATTEMPT[/RANK]] of this node",
    )
    parser.add_argument(
        "--spool",
        type=Path,
        metavar="DIR",
        help="where the node's agent keeps the rings of ranks that ended "
        f"[{' or '.join(map(str, SPOOLS))}]",
    )
    parser.add_argument("--records", type=int, default=0, help="also show the newest N steps")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print every ring; exit 1 if one cannot be read."""
    copies = _copy_folders(arguments.spool)
    rings, broken = [], []
    for place in _places(arguments.place, copies):
        for path in find_rings(place) if place.exists() else ():
            try:
                rings.append(ring_facts(path, arguments.records))
            except RingError as error:
                broken.append(str(error))
    if arguments.json:
        print(json.dumps({"rings": rings, "errors": broken}, indent=1))
    else:
        print(rings_text(rings) if rings else f"no rings below {arguments.place}")
        for reason in broken:
            print(f"stepwatch: {reason}")
        if arguments.place == places.ring_dir():
            for folder in copies:
                count = sum(1 for _ in find_rings(folder))
                print(f"stepwatch: {count} rings of ended ranks are kept in {folder}: name the job")
        for folder in closed_directories(arguments.place):
            print(f"stepwatch: left out {folder}, whose rings only that user and root may read")
    return int(bool(broken))


def _copy_folders(spool: Path | None) -> list[Path]:
    """Return folders with ring copies from ended ranks, if this user may read them."""
    spools = SPOOLS if spool is None else (spool,)
    return [spool / COPIES for spool in spools if os.access(spool / COPIES, os.R_OK | os.X_OK)]


def _places(query: Path, copies: Iterable[Path]) -> list[Path]:
    """Return the paths for `query`.

    They are the path itself, or that job in every user's directory and among the copies of ended
    ranks.

    Raises:
        UsageError: there is neither.
    """
    if query.exists() or query == places.ring_dir():
        return [query]
    wanted = [folder / query for folder in user_directories(places.ring_dir())]
    for folder in copies:
        wanted += [folder / query, (folder / query).with_name(query.name + COPY_SUFFIX)]
    paths = [place for place in wanted if not query.is_absolute() and place.exists()]
    if not paths:
        raise UsageError(
            f"there is no ring, directory or job {query} below {places.ring_dir()}, nor a copy of "
            f"one below {' or '.join(map(str, copies)) or 'the spool of an agent: pass --spool'}; "
            "`stepwatch blackbox` alone shows all"
        )
    return paths


def ring_facts(path: Path, records: int = 0) -> dict[str, Any]:
    """Return the contents of one ring; ages in seconds, null if there is none.

    Raises:
        RingError: the file is not a ring.
    """
    reader = RingReader(path)
    identity, live, collective = reader.identity, reader.live(), reader.collective()
    rows = reader.read()
    steps = rows.rows.get(Kind.STEP)
    last = steps[-1] if steps is not None and len(steps) else None
    state = process_facts(identity.pid, identity.process_start).state
    ended = _end(rows.rows.get(Kind.LIFECYCLE))
    facts = {
        "path": str(path),
        "job": identity.job,
        "attempt": identity.attempt,
        "rank": identity.rank,
        "node": identity.node,
        "stage": identity.stage,
        "pid": identity.pid,
        "process": _how_it_ended(ended) if reader.closed else state.name.lower(),
        "end": ended,
        "step": live.step,
        "phase": phase_name(live.phase),
        "microbatch": live.microbatch,
        "pipeline_wait": live.waiting,
        "since_seconds": _age(live.since_ns),
        "collective": OP_NAMES[collective.op] if collective.inside else None,
        "collective_seconds": _age(collective.since_ns) if collective.inside else None,
        "collectives_entered": collective.entered,
        "device": _device(reader.device()),
        "last_finished_step": None if last is None else int(last["step"]),
        "last_step_seconds": None if last is None else int(last["duration_ns"]) / NANOSECONDS,
        "records_written": reader.head,
        "records_torn": rows.torn,
        "hook_errors": reader.hook_errors,
    }
    if records and steps is not None:
        facts["steps"] = [_step(row) for row in steps[-records:]]
    reader.close()
    return facts


def rings_text(rings: list[dict[str, Any]]) -> str:
    """Return a table per attempt, and the newest steps if they were requested."""
    parts = []
    for job, attempt in sorted({(ring["job"], ring["attempt"]) for ring in rings}):
        attempt_rings = [ring for ring in rings if (ring["job"], ring["attempt"]) == (job, attempt)]
        rows = [_row(ring) for ring in sorted(attempt_rings, key=lambda ring: int(ring["rank"]))]
        head = ["rank", "node", "pid", "process", "step", "phase", "for", "inside", "last done"]
        parts.append(f"{job}, attempt {attempt}\n{text.table(head, rows, left_columns=9)}")
        parts += [
            f"  device of rank {ring['rank']}: {device_words(ring['device'])}"
            for ring in attempt_rings
            if ring["device"] is not None
        ]
        for ring in attempt_rings:
            for step in ring.get("steps", ()):
                phases = "  ".join(f"{k} {text.seconds(v)}" for k, v in step["seconds"].items())
                parts.append(f"  rank {ring['rank']} step {step['step']}: {phases}")
    return "\n".join(parts)


def device_words(device: dict[str, Any]) -> str:
    """Return a device's activity: `working in forward of step 57 for 31.0 s`."""
    state = device["state"].replace("_", " ")
    op = f" {device['collective']}" if device["collective"] else ""
    since = text.seconds(device["since_seconds"])
    return f"{state}{op} in {device['phase']} of step {device['step']} for {since}"


def _device(line: DeviceLine) -> dict[str, Any] | None:
    """Return the compute stream's activity; None if no device is timed."""
    if line.state is DeviceState.UNKNOWN:
        return None
    inside = line.state is DeviceState.IN_COLLECTIVE
    return {
        "state": line.state.name.lower(),
        "step": line.step,
        "phase": phase_name(line.phase),
        "collective": OP_NAMES[line.op % len(OP_NAMES)] if inside else None,
        "since_seconds": _age(line.since_ns),
    }


def _row(ring: dict[str, Any]) -> list[str]:
    inside = ring["collective"] or ("pipeline wait" if ring["pipeline_wait"] else "-")
    last = ring["last_finished_step"]
    return [
        str(ring["rank"]),
        ring["node"],
        str(ring["pid"]),
        ring["process"],
        str(ring["step"]),
        ring["phase"],
        text.seconds(ring["since_seconds"]),
        inside,
        "none" if last is None else f"step {last}",
    ]


def _age(since_ns: int) -> float | None:
    age = (time.monotonic_ns() - since_ns) / NANOSECONDS
    return age if since_ns and age >= 0 else None


def _end(rows: Any) -> str | None:
    ends = {int(event): event.name.lower() for event in ENDS}
    for row in rows if rows is not None else ():
        if int(row["event"]) in ends:
            reason = bytes(row["text"]).decode("utf-8", "replace")
            return f"{ends[int(row['event'])]} {reason}".strip()
    return None


def _how_it_ended(end: str | None) -> str:
    """Return the word for a rank that closed its ring; `ended` without its last record."""
    return _ENDED.get((end or "").partition(" ")[0], "ended")


def _step(row: Any) -> dict[str, Any]:
    names = ("duration", *PHASE_NAMES, "collective", "pipeline_wait")
    spent = {name: int(row[f"{name}_ns"]) / NANOSECONDS for name in names}
    return {"step": int(row["step"]), "seconds": {k: v for k, v in spent.items() if v}}
