"""What each wire format can carry of a record."""

from __future__ import annotations

import numpy as np

from stepwatch.signals import layouts, released
from stepwatch.signals.arrays import Rows
from stepwatch.signals.records import DTYPES, UNKNOWN, Kind


def carried(number: int, kind: Kind) -> list[str]:
    """Fields of a kind that format `number` carries: format 2 those that it was released with."""
    if number > 2:
        return list(DTYPES[kind].names or ())
    text = released.FORMAT_2.get(kind)
    return list(layouts.parse(text.encode()).names or ()) if text else []


def check_carried(number: int, kind: Kind, sent: Rows, received: Rows) -> None:
    """Every bit of what the format carries is the same, and all else is unknown."""
    kept = carried(number, kind)
    assert len(sent) == len(received)
    for field in received.dtype.names or ():
        if field in kept:
            assert received[field].tobytes() == sent[field].tobytes()
        else:
            unknown = np.full_like(received[field], UNKNOWN[kind][field])
            assert received[field].tobytes() == unknown.tobytes()
