"""Facts of nodes: what a probe can find wrong with hardware, kernel, disks and network.

`catalogue.toml` says what each fact means, what to do and when it is over; `xids.toml` does so for
each XID error of an NVIDIA device, with who says so.
"""

from __future__ import annotations

from .catalogue import ACTIONS, CATALOGUE, Action, FactKind, Severity, kind_of
from .xids import Xid, xid_of

__all__ = [
    "ACTIONS",
    "CATALOGUE",
    "Action",
    "FactKind",
    "Severity",
    "Xid",
    "kind_of",
    "xid_of",
]
