"""Ranks that share the card, with an agent and a collector: the verdict, and the clock behind
it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.gpu.finding import Finding
from tests.gpu.place import Place
from tests.gpu.site import services
from tests.ports import free_port
from tests.services import ROOT, Services

RANKS, GUILTY, STEP = 2, 1, 80
HEALTHY_SECONDS, VERDICT_SECONDS, SETTLE_SECONDS, START_SECONDS = 20.0, 40.0, 3.0, 60.0


class Case(NamedTuple):
    """A fault, and the kinds and causes that its verdict may have."""

    fault: str
    kinds: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()


CASES = (
    Case("none"),
    Case("slow-device", ("straggler",), ("slow-compute",)),
    Case("late-host", ("straggler",), ("launch-bound",)),
    Case("stuck-device", ("hang",), ("device-stuck",)),
)


def check(place: Place) -> Iterator[Finding]:
    """Run the cases one after another."""
    with services("verdicts.db") as site:
        for case in CASES:
            yield _run_case(place, site, case)


def _run_case(place: Place, site: Services, case: Case) -> Finding:
    job, log = f"gpu-{case.fault}", site.folder / f"{case.fault}.log"
    ranks = [_rank(place, site, case, rank, job, log) for rank in range(RANKS)]
    try:
        incidents, seconds = _follow(site, case, job, log)
        document, alive = site.job(job) or {}, all(process.poll() is None for process in ranks)
    finally:
        for process in ranks:
            process.kill()
        for process in ranks:
            process.wait()
    clock, p50 = document.get("step_seconds_clock"), (document.get("step_seconds") or {}).get("p50")
    step = "unknown" if p50 is None else f"{p50 * 1e3:.1f} ms"
    descriptions = [
        f"{incident['kind']} rank {incident['rank']} {incident['phase']} {incident['cause']} "
        f"({incident['severity']})"
        for incident in incidents
    ]
    delay = f" after {seconds:.1f} s" if descriptions and case.kinds else ""
    return Finding(
        f"{RANKS} ranks on one card, {case.fault}",
        f"{'; '.join(descriptions) or 'nothing said'}{delay}; steps timed by {clock}, p50 {step}",
        f"{case.kinds[0]} rank {GUILTY} {case.causes[0]}" if case.kinds else "nothing said",
        (alive and _was_watched(document) and _is_right(incidents, case)) if place.is_gpu else None,
        {
            "seconds": seconds,
            "incidents": descriptions,
            "clock": clock,
            "evidence": _evidence(incidents),
        },
    )


def _was_watched(document: dict[str, Any]) -> bool:
    """Return whether the job trained past the fault's step, on the devices' clock."""
    return (
        document.get("step_seconds_clock") == "device" and (document.get("step") or 0) >= STEP - 1
    )


def _evidence(incidents: list[dict[str, Any]]) -> list[Any]:
    return [[incident.get("summary"), incident.get("evidence")] for incident in incidents]


def _is_right(incidents: list[dict[str, Any]], case: Case) -> bool:
    if not case.kinds:
        return not incidents
    return bool(incidents) and all(
        incident["kind"] in case.kinds
        and incident["rank"] == GUILTY
        and incident["cause"] in case.causes
        for incident in incidents
    )


def _rank(
    place: Place, site: Services, case: Case, rank: int, job: str, log: Path
) -> subprocess.Popen[bytes]:
    words = [job, place.kind, case.fault, str(GUILTY), str(STEP)]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _port(job), "WORLD_SIZE": str(RANKS)}
    identity = {"RANK": str(rank), "LOCAL_RANK": str(rank), "GPU_FAULT_LOG": str(log)}
    with open(site.folder / f"{job}-{rank}.out", "wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.loop", *words],
            env={**site.environ, **shared, **identity},
            cwd=ROOT,
            stdout=output,
            stderr=output,
        )


_PORTS: dict[str, str] = {}


def _port(job: str) -> str:
    return _PORTS.setdefault(job, str(free_port()))


def _follow(site: Services, case: Case, job: str, log: Path) -> tuple[list[dict[str, Any]], float]:
    """Return the top incidents, and the seconds from the fault to the first."""
    if not case.kinds:
        time.sleep(HEALTHY_SECONDS)
        return _open_incidents(site, job), 0.0
    deadline = time.monotonic() + START_SECONDS
    while not log.exists() or not log.read_text():
        if time.monotonic() > deadline:
            lines = (site.folder / f"{job}-{GUILTY}.out").read_text().splitlines()
            raise RuntimeError(f"{case.fault} never began: {lines[-1:]}")
        time.sleep(0.1)
    began = float(log.read_text())
    if premature := _open_incidents(site, job):
        return premature, float("nan")
    while time.time() < began + VERDICT_SECONDS:
        if _open_incidents(site, job):
            seconds = time.time() - began
            time.sleep(SETTLE_SECONDS)
            return _open_incidents(site, job), seconds
        time.sleep(0.25)
    return [], float("nan")


def _open_incidents(site: Services, job: str) -> list[dict[str, Any]]:
    return [incident for incident in site.incidents(job) if not incident.get("merged_into")]
