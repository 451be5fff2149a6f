"""Runs the checks that need a GPU and prints their findings.

Each runs in a process of its own, which is ended at its limit; its findings until then are kept.
Checks that measure times run alone, the others concurrently.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from stepwatch.cli.processes import MARK, marked_processes
from stepwatch.signals import places
from tests.services import ROOT

from .checks import CHECKS, Check
from .finding import Finding, read

_SHM = Path("/dev/shm")


class CheckRun(NamedTuple):
    """A check's findings, duration and problem."""

    name: str
    findings: list[Finding]
    seconds: float
    problem: str


def main(words: Sequence[str] | None = None) -> int:
    """Return 0 if all findings hold, 1 if one does not, 2 without a GPU."""
    options = _options(words)
    names = options.only or list(CHECKS)
    if not options.rehearse and not _has_gpu():
        print(
            "no GPU here: torch sees no CUDA device (--rehearse runs the checks on the CPU)",
            file=sys.stderr,
        )
        return 2
    kind = "cpu" if options.rehearse else "cuda"
    concurrent = [name for name in names if options.beside or not CHECKS[name].timed]
    exclusive = [name for name in names if name not in concurrent]
    runs: list[CheckRun] = []
    with ThreadPoolExecutor(max(len(concurrent), 1)) as pool:
        for run in pool.map(lambda name: _run_check(name, CHECKS[name], kind, options), concurrent):
            runs.append(run)
            _show(run)
            _save(options.to, runs)
    for name in exclusive:
        runs.append(_run_check(name, CHECKS[name], kind, options))
        _show(runs[-1])
        _save(options.to, runs)
    missed = [f for run in runs for f in run.findings if f.holds is False]
    failed = [run for run in runs if run.problem]
    held_count = sum(f.holds is True for run in runs for f in run.findings)
    print(
        f"{held_count} held, {len(missed)} did not; "
        f"{len(failed)} of {len(runs)} checks failed or ran out of time"
    )
    return 1 if missed or failed else 0


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu",
        description=__doc__,
        epilog="example: python -m tests.gpu --only timeline graphs --to results.json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(CHECKS), metavar="CHECK", help=", ".join(CHECKS)
    )
    parser.add_argument("--to", type=Path, help="write everything to this file, as JSON")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each check at most")
    parser.add_argument(
        "--beside", action="store_true", help="run all at once: no time is right then"
    )
    parser.add_argument(
        "--rehearse", action="store_true", help="on the CPU: shows that the checks run"
    )
    return parser.parse_args(words)


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _run_check(name: str, check: Check, kind: str, options: argparse.Namespace) -> CheckRun:
    folder = Path(
        tempfile.mkdtemp(prefix=f"stepwatch-gpu-{name}-", dir=_SHM if _SHM.is_dir() else None)
    )
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in (places.ENV_DISABLE, places.ENV_JOB)
    }
    identity = uuid.uuid4().hex
    environ = {**clean, places.ENV_RING_DIR: str(folder / "rings"), MARK: identity}
    began, problem = time.monotonic(), ""
    with open(folder / "output", "wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.child", name, kind, str(folder / "findings")],
            cwd=ROOT, env=environ, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            if child.wait(min(check.seconds, options.limit)):
                problem = f"ended with status {child.returncode}"
        except subprocess.TimeoutExpired:
            problem = f"ran out of time after {min(check.seconds, options.limit):.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            # Ranks of torchrun have sessions of their own.
            for pid in marked_processes(identity):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
    if problem:
        lines = (folder / "output").read_text(errors="replace").strip().splitlines()
        problem += ": " + " | ".join(lines[-20:])
    runs = CheckRun(name, read(folder / "findings"), time.monotonic() - began, problem)
    shutil.rmtree(folder, ignore_errors=True)
    return runs


def _show(runs: CheckRun) -> None:
    print(f"\n{runs.name} ({runs.seconds:.0f} s)")
    for finding in runs.findings:
        mark = {True: "ok  ", False: "MISS", None: "    "}[finding.holds]
        expected = f"  [{finding.expected}]" if finding.expected else ""
        print(f"  {mark} {finding.what}: {finding.measured}{expected}")
    if runs.problem:
        print(f"  FAILED {runs.problem}")
    sys.stdout.flush()


def _save(path: Path | None, runs: Sequence[CheckRun]) -> None:
    if path is None:
        return
    document: dict[str, Any] = {
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "checks": [
            {**run._asdict(), "findings": [finding.plain() for finding in run.findings]}
            for run in runs
        ],
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
