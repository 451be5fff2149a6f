"""The detectors, their conditions, and their current findings in one job.

A detector is a folder next to this file: its `__init__` defines `DETECTORS`. Nothing else lists it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from stepwatch.collector import detect
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.unchanged import FoundNothing
from stepwatch.collector.state.live import CONTAINED
from stepwatch.signals.names import FindingKind


class When(Enum):
    """The condition under which a detector runs."""

    TELEMETRY_MISSING = "telemetry missing"
    """It runs first, whatever other detectors find."""
    STALLED = "stalled"
    """It finds why a job makes no progress."""
    PROGRESSING = "progressing"
    """It evaluates steps, so it runs only while no detector finds the job stalled."""
    ALWAYS = "always"
    """Its findings are valid with and without progress."""
    LASTING = "lasting"
    """Its findings are valid with and without progress, and also after the attempt ended."""
    FAILED = "failed"
    """It finds why an attempt failed, and is valid until a later attempt makes progress."""


class Needs(Enum):
    """The ranks whose records a detector needs, if part of the telemetry is missing."""

    EVERY_RANK = "every rank"
    """It compares all ranks step by step.

    It does not run while a node is unobserved, and its incidents stay unchanged.
    """
    OBSERVED_PEERS = "observed peers"
    """It compares ranks with each other, and continues with the observed ones.

    Its incidents about ranks without an observed peer stay unchanged.
    """
    SOME_RANKS = "some ranks"
    """It continues with the observed ranks, and reports what is unknown about the others."""


class Detector(NamedTuple):
    """One detector: the kinds of its findings, its condition, and its function.

    Detectors with one `when` run in rising `order`. A finding of a kind in `gives_way_to` explains
    everything this detector could find, so it does not run. `needs` names the ranks whose records
    it reads.
    """

    kinds: frozenset[FindingKind]
    when: When
    order: int
    find: Callable[[DetectionContext], list[Finding]]
    gives_way_to: frozenset[FindingKind] = frozenset()
    needs: Needs = Needs.EVERY_RANK
    from_steps: bool = False
    """Whether an empty result stays empty while `unchanged.steps_state` does not change."""


def folders() -> Iterator[tuple[str, ModuleType]]:
    """Yield the folders of this package with their names, in the order of the names."""
    for module in sorted(pkgutil.iter_modules(detect.__path__), key=lambda module: module.name):
        if module.ispkg:
            yield module.name, import_module(f"{detect.__name__}.{module.name}")


def discover() -> tuple[Detector, ...]:
    """Return the detectors of all folders in this package, by `order`, then by folder name.

    Raises:
        LookupError: a folder defines no detector.
    """
    detectors: list[Detector] = []
    for name, folder in folders():
        named = getattr(folder, "DETECTORS", ())
        if not named:
            raise LookupError(f"detect/{name}/__init__.py names no DETECTORS")
        detectors += named
    return tuple(sorted(detectors, key=lambda detector: detector.order))


def find(
    context: DetectionContext, detectors: Sequence[Detector], nothing: FoundNothing | None = None
) -> list[Finding]:
    """Return the current findings in a running attempt.

    Detectors known to find `nothing` in its steps do not run. If part of the telemetry is missing,
    only detectors that can continue without it run. If all is missing, nothing else is known. The
    exceptions of detectors are in the context's `failures`.
    """
    missing = _ask(context, detectors, When.TELEMETRY_MISSING)
    if not context.observes_any:
        return missing
    if context.unobserved:
        detectors = [detector for detector in detectors if detector.needs is not Needs.EVERY_RANK]
    stalled = _ask(context, detectors, When.STALLED)
    lasting = _ask(context, detectors, When.ALWAYS) + find_lasting(context, detectors)
    if stalled:
        return missing + stalled + lasting
    if nothing is not None:
        nothing.look(context)
    return missing + _ask(context, detectors, When.PROGRESSING, nothing) + lasting


def kinds_that_need(needs: Needs, detectors: Iterable[Detector]) -> frozenset[str]:
    """Return the kind values of the detectors with exactly that need."""
    kind_sets = (detector.kinds for detector in detectors if detector.needs is needs)
    return frozenset(kind.value for kinds in kind_sets for kind in kinds)


def find_failures(context: DetectionContext, detectors: Sequence[Detector]) -> list[Finding]:
    """Return why the attempt in `context` failed; empty while it has not."""
    return _ask(context, detectors, When.FAILED)


def find_lasting(context: DetectionContext, detectors: Sequence[Detector]) -> list[Finding]:
    """Return the findings that are valid whether or not the attempt in `context` has ended."""
    return _ask(context, detectors, When.LASTING)


def failure_kinds(detectors: Iterable[Detector]) -> frozenset[str]:
    """Return the kind values that explain why an attempt failed."""
    failed = (detector.kinds for detector in detectors if detector.when is When.FAILED)
    return frozenset(kind.value for kinds in failed for kind in kinds)


def _ask(
    context: DetectionContext,
    detectors: Sequence[Detector],
    when: When,
    nothing: FoundNothing | None = None,
) -> list[Finding]:
    findings: list[Finding] = []
    for detector in detectors:
        if detector.when is not when:
            continue
        cache = nothing if detector.from_steps else None
        if cache is not None and detector.order in cache:
            continue
        if detector.gives_way_to.isdisjoint(finding.kind for finding in findings):
            try:
                detected = detector.find(context)
            except CONTAINED as error:  # the others continue
                context.failures.append((detector.kinds, error))
                continue
            findings += detected
            if cache is not None and not detected:
                cache.note(detector.order)
    return findings
