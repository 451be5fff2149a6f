"""A verification's result as a record."""

from __future__ import annotations

import zlib

import numpy as np

from stepwatch.agent.checkpoints.result import Report, Weight
from stepwatch.signals.plain_text import plain_line
from stepwatch.signals.records import DTYPES, Kind, Verification, text_bytes
from stepwatch.signals.secrets.texts import without_secrets
from stepwatch.signals.wire import Rows

from .register import KnownCheckpoint

_DTYPE = DTYPES[Kind.VERIFICATION]
_WEIGHTS = (Weight.DANGER, Weight.DAMAGE, Weight.UNKNOWN)


def verification_rows(
    entry: KnownCheckpoint,
    state: Verification,
    reason: str,
    report: Report | None = None,
    file: str = "",
) -> Rows:
    """Return one VERIFICATION row; texts have neither secrets nor control characters."""
    rows = np.zeros(1, dtype=_DTYPE)
    row, path = rows[0], entry.path.encode("utf-8", "replace")
    row["rank"], row["step"], row["state"] = entry.rank, entry.step, state
    row["again"] = entry.verified_s > 0 and state is not Verification.VERIFIED
    row["path_number"] = zlib.crc32(path)
    row["bytes"] = 0 if report is None else report.size
    row["seconds"] = np.nan if report is None else report.seconds
    for name, text in (("file", file), ("reason", reason)):
        clean = without_secrets(plain_line(text))
        row[name] = text_bytes(clean, _DTYPE[name].itemsize)
    end = path[-_DTYPE["path"].itemsize :]
    row["path"] = end.decode("utf-8", "ignore").encode()
    return rows


def first_problem(report: Report) -> tuple[str, str]:
    """Return the file and the reason of the problem that decides the state."""
    for weight in _WEIGHTS:
        for problem in report.problems:
            if problem.weight is weight:
                return problem.file, problem.reason
    return "", "no reason given"
