"""The meanings of NVIDIA XID errors, read from `xids.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from .actions import Action
from .catalogue import Severity

UNLISTED = "not in NVIDIA's XID catalog: inspect the device"
"""The source for an XID error that the catalog does not list."""
_RECOVERY_CHANGED = 154
_NVLINK5 = range(144, 151)
_RECOVERY = re.compile(r"action changed from 0x[0-9a-f]{1,8} .{0,64}to 0x([0-9a-f]{1,8})")
_RECOVERY_ACTIONS = (
    Action.NONE,
    Action.RESET_DEVICE,
    Action.REBOOT,
    Action.DRAIN,
    Action.RESET_DEVICE,
)
"""Indexed by `NVML_GPU_RECOVERY_ACTION_*`; larger numbers need an operator's inspection."""
_NVLINK5_LINE = re.compile(
    r" (?P<unit>[A-Z][A-Z0-9_]{2,31}) +(?P<how>Fatal|Nonfatal) +XC[01] +i[01] +Link +"
    r"(?P<link>-?\d{1,3}) *\((?P<words>(?: ?0x[0-9a-f]{1,8}){1,8})"
)
_PROMOTED = 1 << 10 | 1 << 7


class Xid(NamedTuple):
    """One XID error; `source` names the advice behind its severity and action."""

    code: int
    meaning: str
    severity: Severity
    action: Action
    source: str

    @property
    def because(self) -> str:
        """The error in words."""
        return f"XID {self.code}{f' ({self.meaning})' if self.meaning else ''}"


class _Nvlink5(NamedTuple):
    """The meanings of one unit's statuses."""

    code: int
    unit: str
    reset: frozenset[int]
    promoted: frozenset[int]


def xid_of(code: int, line: str = "") -> Xid:
    """Return the facts about an XID error; `line` is the kernel log's line on it, if available.

    An error that is not in the table is a fault to inspect.
    """
    entry = _table().get(code)
    if entry is None:
        return Xid(code, "", Severity.DEGRADED, Action.DRAIN, UNLISTED)
    if code == _RECOVERY_CHANGED:
        return _with_recovery(entry, line)
    return _decoded(entry, line) if code in _NVLINK5 else entry


def known_xids() -> tuple[int, ...]:
    """The codes in the table."""
    return tuple(sorted(_table()))


def _with_recovery(entry: Xid, line: str) -> Xid:
    """XID 154 states the action from now on: the number counts, its words changed once."""
    match = _RECOVERY.search(line)
    if match is None:
        return entry
    number = int(match[1], 16)
    action = _RECOVERY_ACTIONS[number] if number < len(_RECOVERY_ACTIONS) else Action.DRAIN
    severity = Severity.EVIDENCE if action is Action.NONE else Severity.FATAL
    return entry._replace(severity=severity, action=action)


def _decoded(entry: Xid, line: str) -> Xid:
    """Decode an NVLink 5 error from its line; `0x0409a0c2 0x00000008` has the status 8."""
    match = _NVLINK5_LINE.search(line)
    if match is None:
        return entry
    words = [int(word, 16) for word in match["words"].split()]
    where = f"{match['unit']}, link {match['link']}" if match["link"] != "-1" else match["unit"]
    unit = next(
        (
            candidate
            for candidate in _units()
            if candidate.code == entry.code and match["unit"].startswith(candidate.unit)
        ),
        None,
    )
    if unit is None or len(words) < 2:
        resets = match["how"] == "Fatal"
    else:
        resets = words[1] in unit.reset or (
            words[1] in unit.promoted and bool(words[0] & _PROMOTED)
        )
    return entry._replace(
        meaning=f"{entry.meaning}; {where}",
        severity=Severity.FATAL if resets else Severity.EVIDENCE,
        action=Action.RESET_DEVICE if resets else Action.NONE,
    )


@cache
def _document() -> dict[str, Any]:
    text = Path(__file__).with_name("xids.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def _units() -> tuple[_Nvlink5, ...]:
    return tuple(
        _Nvlink5(
            item["code"],
            item["unit"],
            frozenset(item["reset"]),
            frozenset(item.get("promoted", ())),
        )
        for item in _document()["nvlink5"]
    )


@cache
def _table() -> Mapping[int, Xid]:
    return {item["code"]: _xid(item) for item in _document()["xid"]}


def _xid(item: dict[str, Any]) -> Xid:
    word = item["source"]
    return Xid(
        item["code"],
        item["meaning"],
        Severity(item["severity"]),
        Action(item["action"]),
        f"{_document()['source']}: {word}" if word else UNLISTED,
    )
