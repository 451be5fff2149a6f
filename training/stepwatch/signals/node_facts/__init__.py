"""Node facts: the problems that a probe can find with hardware, kernel, disks and network.

`catalogue.toml` lists each fact's meaning, action and end; `xids.toml` does so for each NVIDIA XID
error, with its sources.
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
