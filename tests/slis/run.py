"""Runs a case under a collector and an agent, and reads its SLIs before, during and after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from stepwatch.trainer.config.options import Options
from tests.services import ServiceError, Services
from tests.slis.cases import BEGINS, STEPS, Case
from tests.slis.figures import DEVICE_HOUR, RunRecord, read

_EVERY_SECONDS = 0.5
_LONGEST_SECONDS = 900.0
_SETTLED_SECONDS = 8.0
"""After the end: the agent's last flush, and the accounts of a job that ended."""

Values = dict[str, float | None]


class SliRun(NamedTuple):
    """A run's SLIs at three moments, and the trainer's own files."""

    values_before: Values
    during: Values
    values_after: Values
    record: RunRecord


class SliSite(Services):
    """A collector with a rate card, and an agent."""

    def __init__(self, folder: Path, rings: Path) -> None:
        card = folder / "rates.toml"
        options = ("--rates", str(card))
        super().__init__(folder, rings, [*filter(None, sys.path)], options)
        card.write_text(
            f'currency = "USD"\n[[rate]]\nfrom = 2020-01-01\ndevice_hour = {DEVICE_HOUR}\n'
        )

    def values(self, job: str) -> Values:
        """Return a job's SLIs, None for an unknown one; empty before the first answer."""
        response = self._client.get(f"/v1/jobs/{job}/slis")
        rows: list[dict[str, Any]] = response.json()["slis"] if response.is_success else []
        return {sli["name"]: sli["value"] for sli in rows}

    def run(self, case: Case) -> SliRun:
        """Train, and read.

        Raises:
            ServiceError: the trainer takes far too long.
        """
        folder = self.folder / case.name
        folder.mkdir()
        with open(folder / "log", "ab") as log:
            trainer = subprocess.Popen(
                [*_words(case, folder)],
                stdout=log,
                stderr=log,
                env=self.environ,
                start_new_session=True,
            )
        launched_s = time.time()
        moments: dict[str, Values] = {}
        deadline = time.monotonic() + _LONGEST_SECONDS
        while trainer.poll() is None:
            job = self.job(case.name)
            step = -1 if job is None or job["step"] is None else int(job["step"])
            if step >= BEGINS - 2 and "before" not in moments:
                moments["before"] = self.values(case.name)
            if case.ends - 2 <= step and "during" not in moments:
                moments["during"] = self.values(case.name)
            if case.stop_at and step >= case.stop_at:
                trainer.send_signal(signal.SIGTERM)
            if time.monotonic() > deadline:
                os.killpg(trainer.pid, signal.SIGKILL)
                trainer.wait()
                raise ServiceError(f"{case.name}: no end within {_LONGEST_SECONDS:.0f} s")
            time.sleep(_EVERY_SECONDS)
        time.sleep(_SETTLED_SECONDS)
        options = Options()
        tokens = options.parallel.batch * options.model.length
        return SliRun(
            moments.get("before", {}),
            moments.get("during", {}),
            self.values(case.name),
            read(folder, tokens, range(BEGINS, case.ends), launched_s),
        )


def _words(case: Case, folder: Path) -> list[str]:
    words = [sys.executable, "-m", "stepwatch.cli", "train", "--job", case.name]
    words += ["--steps", str(STEPS), "--run-dir", str(folder / "run")]
    words += ["--json", str(folder / "result.json"), *case.words]
    return words + [word for fault in case.faults for word in ("--fault", fault)]
