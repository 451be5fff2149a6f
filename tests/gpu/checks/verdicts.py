"""Ranks that share the card, an agent and a collector: who is named, and which clock said so."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.gpu.beside import services
from tests.gpu.finding import Finding
from tests.gpu.place import Place
from tests.ports import free_port
from tests.services import ROOT, Services

RANKS, GUILTY, STEP = 2, 1, 80
HEALTHY_SECONDS, VERDICT_SECONDS, SETTLE_SECONDS, START_SECONDS = 20.0, 40.0, 3.0, 60.0


class Case(NamedTuple):
    """A fault, and what may be said of it: kinds, causes."""

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
    """One run for each case, one after the other."""
    with services("verdicts.db") as made:
        for case in CASES:
            yield _run(place, made, case)


def _run(place: Place, site: Services, case: Case) -> Finding:
    job, log = f"gpu-{case.fault}", site.folder / f"{case.fault}.log"
    ranks = [_rank(place, site, case, rank, job, log) for rank in range(RANKS)]
    try:
        incidents, seconds = _follow(site, case, job, log)
        known, alive = site.job(job) or {}, all(each.poll() is None for each in ranks)
    finally:
        for process in ranks:
            process.kill()
        for process in ranks:
            process.wait()
    clock, p50 = known.get("step_seconds_clock"), (known.get("step_seconds") or {}).get("p50")
    step = "unknown" if p50 is None else f"{p50 * 1e3:.1f} ms"
    said = [
        f"{each['kind']} rank {each['rank']} {each['phase']} {each['cause']} ({each['severity']})"
        for each in incidents
    ]
    after = f" after {seconds:.1f} s" if said and case.kinds else ""
    return Finding(
        f"{RANKS} ranks on one card, {case.fault}",
        f"{'; '.join(said) or 'nothing said'}{after}; steps timed by {clock}, p50 {step}",
        f"{case.kinds[0]} rank {GUILTY} {case.causes[0]}" if case.kinds else "nothing said",
        (alive and _was_watched(known) and _is_right(incidents, case)) if place.is_gpu else None,
        {"seconds": seconds, "incidents": said, "clock": clock, "evidence": _evidence(incidents)},
    )


def _was_watched(known: dict[str, Any]) -> bool:
    """Whether the job trained beyond the step of the fault's, on the devices' clock."""
    return known.get("step_seconds_clock") == "device" and (known.get("step") or 0) >= STEP - 1


def _evidence(incidents: list[dict[str, Any]]) -> list[Any]:
    return [[each.get("summary"), each.get("evidence")] for each in incidents]


def _is_right(incidents: list[dict[str, Any]], case: Case) -> bool:
    if not case.kinds:
        return not incidents
    return bool(incidents) and all(
        each["kind"] in case.kinds and each["rank"] == GUILTY and each["cause"] in case.causes
        for each in incidents
    )


def _rank(
    place: Place, site: Services, case: Case, rank: int, job: str, log: Path
) -> subprocess.Popen[bytes]:
    words = [job, place.kind, case.fault, str(GUILTY), str(STEP)]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": _port(job), "WORLD_SIZE": str(RANKS)}
    own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "GPU_FAULT_LOG": str(log)}
    with open(site.folder / f"{job}-{rank}.out", "wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.loop", *words],
            env={**site.environ, **shared, **own},
            cwd=ROOT,
            stdout=output,
            stderr=output,
        )


_PORTS: dict[str, str] = {}


def _port(job: str) -> str:
    return _PORTS.setdefault(job, str(free_port()))


def _follow(site: Services, case: Case, job: str, log: Path) -> tuple[list[dict[str, Any]], float]:
    """Incidents that stand for themselves, and seconds from the fault to the first."""
    if not case.kinds:
        time.sleep(HEALTHY_SECONDS)
        return _standing(site, job), 0.0
    deadline = time.monotonic() + START_SECONDS
    while not log.exists() or not log.read_text():
        if time.monotonic() > deadline:
            lines = (site.folder / f"{job}-{GUILTY}.out").read_text().splitlines()
            raise RuntimeError(f"{case.fault} never began: {lines[-1:]}")
        time.sleep(0.1)
    began = float(log.read_text())
    if early := _standing(site, job):
        return early, float("nan")
    while time.time() < began + VERDICT_SECONDS:
        if _standing(site, job):
            seconds = time.time() - began
            time.sleep(SETTLE_SECONDS)
            return _standing(site, job), seconds
        time.sleep(0.25)
    return [], float("nan")


def _standing(site: Services, job: str) -> list[dict[str, Any]]:
    return [each for each in site.incidents(job) if not each.get("merged_into")]
