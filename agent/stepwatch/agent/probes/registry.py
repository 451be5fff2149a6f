"""Finds the probes: every folder below `probes` that defines one."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from types import ModuleType

from stepwatch.agent import probes
from stepwatch.signals.records import Kind

from .probe import Probe

_SHARED = (Kind.NODE_FACT, Kind.DEVICE)
"""Kinds that several probes may read: facts are independent, devices are joined
(`agent.devices.joined`).
"""


def discover() -> list[type[Probe]]:
    """Return the probe class in every folder below `probes`, sorted by name.

    Raises:
        TypeError: a folder has no probe or several, or two probes share a name or a record kind.
    """
    probes_by_name: dict[str, type[Probe]] = {}
    for module in pkgutil.iter_modules(probes.__path__, f"{probes.__name__}."):
        if module.ispkg:
            probe = _probe_of(importlib.import_module(module.name))
            if probe.name in probes_by_name:
                raise TypeError(f"{module.name} defines a second probe named {probe.name!r}")
            _refuse_second_of_kind(probe, probes_by_name.values())
            probes_by_name[probe.name] = probe
    return [probes_by_name[name] for name in sorted(probes_by_name)]


def _refuse_second_of_kind(probe: type[Probe], registered: Iterable[type[Probe]]) -> None:
    for peer in registered:
        if peer.kind is probe.kind and probe.kind not in _SHARED:
            raise TypeError(
                f"probe {probe.name!r} reads {probe.kind.name}, as probe {peer.name!r} does: "
                "readers take the newest row of a kind, so one value would stand for the other; "
                "add a kind of record"
            )


def _probe_of(package: ModuleType) -> type[Probe]:
    classes = [
        value
        for value in vars(package).values()
        if inspect.isclass(value) and issubclass(value, Probe) and not inspect.isabstract(value)
    ]
    if len(classes) != 1:
        raise TypeError(f"{package.__name__} defines {len(classes)} probes instead of one")
    return classes[0]
