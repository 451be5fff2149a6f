"""Torch watchdog checks: when does torch give up a collective that hangs?"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any

from .result import Outcome, Problem, Result, Surroundings


def check(around: Surroundings) -> Iterator[Result]:
    """Yield one result per disabled or invalid setting, else one with the effective times."""
    watchdogs = _load_watchdogs()
    source = watchdogs["source"]
    values: dict[str, int] = {}
    odd = False
    for name, default in watchdogs["default"].items():
        value = around.environ.get(name, str(default))
        if not value.isdecimal() or len(value) > 9:
            odd = True
            text = f"{name}={value[:20]!r} is not a number"
            yield Result("watchdogs", Outcome.FAIL, text, f"unset or correct {name}", source,
                         Problem.USER)  # fmt: skip
            continue
        values[name] = int(value)
        if not values[name] and name in watchdogs["off"]:
            odd = True
            text = f"{name}=0: {watchdogs['off'][name]}"
            yield Result("watchdogs", Outcome.WARN, text, f"unset {name}", source, Problem.USER)
    if not odd:
        yield Result("watchdogs", Outcome.PASS, _times(watchdogs, values), "", source, Problem.USER)


def _times(watchdogs: Mapping[str, Any], values: Mapping[str, int]) -> str:
    seconds, beat = watchdogs["collective_seconds"], values["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"]
    return (
        f"a collective that hangs is given up after {seconds} s unless the job sets another timeout"
        f", a watchdog that hangs after {beat} s"
    )


@cache
def _load_watchdogs() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("watchdogs.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
