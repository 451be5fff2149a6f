"""Which incident fills in a runbook."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.collector.web.runbook_view import relevant
from stepwatch.signals.names import (
    ALERT_CHECKPOINT_UNVERIFIED,
    ALERT_NOT_RESTARTED,
    ALERT_OF,
    ALERT_RANK_FAILED,
    FindingKind,
)


def incident(kind: FindingKind, opened_at: float, state: str = "open") -> dict[str, Any]:
    name = f"{kind.value}/{opened_at}"
    reported = {"kind": kind.value, "runbook": ALERT_OF[kind], "state": state, "job": "llama"}
    return {"id": name, "opened_at": opened_at, **reported}


KNOWN = [
    incident(FindingKind.RANK_FAILED, 1.0, "ended"),
    incident(FindingKind.RANK_FAILED, 2.0),
    incident(FindingKind.CHECKPOINT_STALL, 3.0),
    incident(FindingKind.STRAGGLER, 4.0),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (ALERT_RANK_FAILED, "rank-failed/2.0"),
        (ALERT_NOT_RESTARTED, "rank-failed/2.0"),
        (ALERT_CHECKPOINT_UNVERIFIED, "checkpoint-stall/3.0"),
        (ALERT_OF[FindingKind.HANG], None),
    ],
)
def test_an_alert_without_findings_of_its_own_is_filled_in_from_what_led_to_it(
    name: str, expected: str | None
) -> None:
    reported = relevant(KNOWN, name, {"job": "llama"})
    assert (None if reported is None else reported["id"]) == expected
    assert relevant(KNOWN, name, {"job": "another"}) is None
