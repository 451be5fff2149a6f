"""A verification's result as a record."""

from __future__ import annotations

import zlib

from stepwatch.agent.checkpoints.result import Report, Weight
from stepwatch.signals.plain_text import plain_line
from stepwatch.signals.records import DTYPES, Kind, Verification, make_rows, text_bytes
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
    path = entry.path.encode("utf-8", "replace")
    end = path[-_DTYPE["path"].itemsize :]
    rows = make_rows(
        *(Kind.VERIFICATION, 1),
        rank=entry.rank,
        step=entry.step,
        state=state,
        again=entry.verified_s > 0 and state is not Verification.VERIFIED,
        path_number=zlib.crc32(path),
        file=_clean(file, "file"),
        reason=_clean(reason, "reason"),
        path=end.decode("utf-8", "ignore").encode(),
    )
    if report is not None:
        rows["bytes"], rows["seconds"] = report.size, report.seconds
    return rows


def _clean(text: str, field: str) -> bytes:
    return text_bytes(without_secrets(plain_line(text)), _DTYPE[field].itemsize)


def first_problem(report: Report) -> tuple[str, str]:
    """Return the file and the reason of the problem that decides the state."""
    for weight in _WEIGHTS:
        for problem in report.problems:
            if problem.weight is weight:
                return problem.file, problem.reason
    return "", "no reason given"
