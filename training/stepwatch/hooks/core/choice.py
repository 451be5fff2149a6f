"""Which core runs: the compiled one where it was built and fits, else the plain one."""

from __future__ import annotations

import importlib
import os
import sys
import time
from types import ModuleType
from typing import Any

from stepwatch.hooks.guard import logger
from stepwatch.signals.blackbox import layout
from stepwatch.signals.plain_text import plain_line
from stepwatch.signals.records import UNKNOWN_FLOAT, DeviceFlag, Kind, Phase, StepFlag

from . import buckets
from .plain.event_marks import ASKED_AFTER_NS, FAILURES, MERGED_NS, never
from .plain.step import Step
from .plain.timed_call import TimedCall
from .sampling import EVERY, REPEATS

ENV_CORE = "STEPWATCH_CORE"
"""`native` or `python`; without it the compiled core runs if there is one."""
NATIVE, PYTHON = "native", "python"


def load() -> ModuleType | None:
    """Return the compiled core, ready for use; None if the plain one is to run.

    A core that was asked for or built, and does not load, is named in one line of log.
    """
    wanted = os.environ.get(ENV_CORE, "")
    if wanted == PYTHON:
        return None
    if wanted not in ("", NATIVE):
        _warn(f"{ENV_CORE}={wanted} is neither {NATIVE} nor {PYTHON}", "it is ignored")
    if "t" in sys.abiflags:  # objects of a free-threaded Python have another layout
        if wanted == NATIVE:
            _warn("the compiled core needs an interpreter lock")
        return None
    try:
        core = importlib.import_module("stepwatch.hooks.core._native")
        if expected_layout() != core.LAYOUT:
            raise ImportError("it was built from other sources: install stepwatch again")
        core.use(Step, TimedCall, time.monotonic_ns, UNKNOWN_FLOAT, FAILURES, never)
    except ModuleNotFoundError:
        if wanted == NATIVE:
            _warn("no compiled core was built")
        return None
    except (ImportError, AttributeError, TypeError, SystemError) as error:
        _warn(f"the compiled core does not load ({error})")
        return None
    return core


def expected_layout() -> dict[str, Any]:
    """Return the layout that the compiled core must have been built for."""
    step, collective = (layout.SLOT_STRUCTS[kind] for kind in (Kind.STEP, Kind.COLLECTIVE))
    return {
        "header": layout.HEADER_SIZE,
        "slot": layout.SLOT_SIZE,
        "live": buckets.LIVE,
        "collective_line": buckets.COLLECTIVE_LINE,
        "head": layout.HEAD_AT // 8,
        "phases": len(Phase),
        "step": int(Kind.STEP),
        "step_format": step.format,
        "collective": int(Kind.COLLECTIVE),
        "collective_format": collective.format,
        "buckets": (
            int(Phase.OTHER),
            int(Phase.CHECKPOINT),
            int(Phase.EVAL),
            buckets.COLLECTIVE,
            buckets.PIPELINE_WAIT,
            buckets.BUCKETS,
        ),
        "flags": (
            int(StepFlag.FIRST),
            int(StepFlag.AFTER_PAUSE),
            int(StepFlag.UNFINISHED),
            int(DeviceFlag.CAPTURED) << 8 | int(DeviceFlag.INCOMPLETE),
        ),
        "sampled": (EVERY, REPEATS),
        "marks": (MERGED_NS, ASKED_AFTER_NS),
    }


def _warn(reason: str, effect: str = "the hooks run as plain Python") -> None:
    logger.warning("stepwatch: %s: %s", plain_line(reason), effect)
