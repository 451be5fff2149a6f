"""What a trace event is: an operator, a Python function, a wait; and the code around it."""

from __future__ import annotations

import re
import sys
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
"""Categories of events on a device."""
COLLECTION = "stepwatch: garbage collection"
LOADER = "enumerate(DataLoader)"
MOST_MODULES = 4
"""Innermost modules that a place names."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_CODE = re.compile(r"(?P<path>.+)\((?P<line>\d+)\): (?P<function>.+)", re.DOTALL)
_BUILT_IN = re.compile(r"<built-in (?:method|function) (?P<name>.+)>", re.DOTALL)
_MODULE = re.compile(r"nn\.Module: (?P<name>\S+)")
_WAITS = re.compile(
    r"gloo:|nccl|c10d::|record_param_comms|ProcessGroup|Synchronize|_allgather|_allreduce"
    r"|wait of .*(Work|Future)|run_backward|_rebuild_buckets",
    re.IGNORECASE,
)
# `run_backward` itself waits for the engine's threads and for DDP's collectives.
_LIBRARIES = frozenset(
    {"torch", "stepwatch", "numpy", "transformers", "accelerate", "lightning", "deepspeed", "<"}
)
_MAX_NAME = 120


class ActivityKind(StrEnum):
    """The kind of an activity."""

    OPERATOR = "operator"
    FUNCTION = "function"
    """Python outside operators: its own code, a built-in, or a wait in it."""
    KERNEL = "kernel"
    WAIT = "wait"
    """A wait for other ranks or for the device."""
    COLLECTION = "garbage collection"
    LOADER = "loader"
    HOOKS = "hooks"
    """Stepwatch's own hooks."""


COMPUTING = frozenset({ActivityKind.OPERATOR, ActivityKind.KERNEL})
"""Kinds whose calls all take longer on a slow processor or device."""


class Activity(NamedTuple):
    """One kind of work in one place.

    `place` is the path of modules, `code` the user's function that contains it.
    """

    kind: ActivityKind
    name: str
    place: str = ""
    code: str = ""


class Frame(NamedTuple):
    """The context that an event gives to the events that it contains."""

    modules: tuple[str, ...] = ()
    code: str = ""
    kind: ActivityKind | None = None
    """Set if all work inside is of one kind: a garbage collection or a loader."""


def describe(category: str, name: str, frame: Frame) -> Activity:
    """Return the activity of an event with this name inside `frame`."""
    kind = _inner_kind(name) or frame.kind
    if category in ("kernel", "gpu_memcpy", "gpu_memset"):
        return Activity(
            ActivityKind.WAIT if _WAITS.search(name) else ActivityKind.KERNEL, _short(name)
        )
    if kind in (ActivityKind.COLLECTION, ActivityKind.LOADER, ActivityKind.HOOKS):
        return Activity(kind, kind.value)
    if _WAITS.search(name):
        return Activity(ActivityKind.WAIT, _short(name))
    place = "/".join(frame.modules[-MOST_MODULES:])
    if category == "python_function" and not _MODULE.fullmatch(name):
        code = _user_code(name)
        return Activity(ActivityKind.FUNCTION, _function(name), place, code or frame.code)
    if category == "cpu_op":
        return Activity(ActivityKind.OPERATOR, _short(name), place, frame.code)
    return Activity(ActivityKind.FUNCTION, _short(name), place, frame.code)


def frame_of(category: str, name: str, outer: Frame) -> Frame:
    """Return the context for events inside this one."""
    inner = _inner_kind(name)
    # The hooks wrap the trainer's own calls, so what they contain is not theirs.
    kind = outer.kind if inner is None or inner is ActivityKind.HOOKS else inner
    if category != "python_function":
        return outer._replace(kind=kind)
    module = _MODULE.fullmatch(name)
    if module:
        return outer._replace(modules=(*outer.modules, module["name"]))
    code = _user_code(name)
    return Frame(outer.modules, code or outer.code, kind)


@lru_cache(maxsize=1 << 14)
def _inner_kind(name: str) -> ActivityKind | None:
    if name == COLLECTION:
        return ActivityKind.COLLECTION
    if name.startswith(LOADER):
        return ActivityKind.LOADER
    if name.startswith("stepwatch/hooks/") or "/stepwatch/hooks/" in name:
        return ActivityKind.HOOKS
    return None


@lru_cache(maxsize=1 << 14)
def _function(name: str) -> str:
    """Return a Python function's name: `acquire of _thread.lock`, or `train.py:12 step`."""
    built_in = _BUILT_IN.fullmatch(name)
    if built_in:
        return _short(built_in["name"].removesuffix(" object"))
    code = _CODE.fullmatch(name)
    if code:
        return _short(f"{_tail(code['path'])}:{code['line']} {code['function']}")
    return _short(name)


@lru_cache(maxsize=1 << 14)
def _user_code(name: str) -> str:
    """Return the function's place if it is the user's code, not a library's; else nothing."""
    code = _CODE.fullmatch(name)
    if code is None:
        return ""
    first = code["path"].partition("/")[0]
    is_library = (
        first in _LIBRARIES
        or first.removesuffix(".py") in sys.stdlib_module_names
        or "site-packages/" in code["path"]
        or code["path"].startswith("<")
    )
    return "" if is_library else _function(name)


def _tail(path: str) -> str:
    return "/".join(path.split("/")[-2:])


@lru_cache(maxsize=1 << 14)
def _short(name: str) -> str:
    return _ADDRESS.sub("", name).replace(" object>", ">")[:_MAX_NAME].removesuffix(" object")
