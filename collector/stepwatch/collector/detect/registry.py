"""Which detectors there are, when each applies, and what they find in one job now.

A detector is a folder beside this file: its `__init__` names `DETECTORS`. Nothing else lists it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from importlib import import_module
from typing import NamedTuple

from stepwatch.collector import detect
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.unchanged import FoundNothing
from stepwatch.collector.state.live import CONTAINED
from stepwatch.signals.names import FindingKind


class When(Enum):
    """When a detector is asked."""

    TELEMETRY_MISSING = "telemetry missing"
    """First, whatever else is found."""
    STALLED = "stalled"
    """It finds why a job makes no progress."""
    PROGRESSING = "progressing"
    """It evaluates steps, so it is asked only while no detector finds the job stalled."""
    ALWAYS = "always"
    """Its findings hold whether or not the job makes progress."""
    FAILED = "failed"
    """It finds why an attempt failed. Its findings hold until a later attempt makes progress."""


class Needs(Enum):
    """Whose records a detector needs: what it does while part of the telemetry is missing."""

    EVERY_RANK = "every rank"
    """It compares all ranks step by step. With a node unobserved it is not asked, and its
    incidents stay as they are."""
    OBSERVED_PEERS = "observed peers"
    """It compares ranks with each other, and goes on with those that are observed. Its incidents
    about ranks that have no observed peer stay as they are."""
    SOME_RANKS = "some ranks"
    """It goes on with the ranks that are observed, and says what it does not know of the others."""


class Detector(NamedTuple):
    """One detector: the kinds of its findings, when it applies, and how it finds them.

    Detectors of one `when` are asked in rising `order`. A finding of a kind in `gives_way_to`
    explains all that this detector could find: then it is not asked. `needs` says whose records it
    looks at.
    """

    kinds: frozenset[FindingKind]
    when: When
    order: int
    find: Callable[[DetectionContext], list[Finding]]
    gives_way_to: frozenset[FindingKind] = frozenset()
    needs: Needs = Needs.EVERY_RANK
    from_steps: bool = False
    """Whether it finds nothing, again, while nothing changes that `unchanged.steps_state` holds."""


def discover() -> tuple[Detector, ...]:
    """All detectors of the folders in this package, by `order`, then by folder name.

    Raises:
        LookupError: a folder names no detector.
    """
    detectors: list[Detector] = []
    for module in sorted(pkgutil.iter_modules(detect.__path__), key=lambda module: module.name):
        if not module.ispkg:
            continue
        named = getattr(import_module(f"{detect.__name__}.{module.name}"), "DETECTORS", ())
        if not named:
            raise LookupError(f"detect/{module.name}/__init__.py names no DETECTORS")
        detectors += named
    return tuple(sorted(detectors, key=lambda detector: detector.order))


def find(
    context: DetectionContext, detectors: Sequence[Detector], nothing: FoundNothing | None = None
) -> list[Finding]:
    """What is wrong now in an attempt that runs; detectors that are known to find `nothing` in its
    steps are not asked.

    With part of its telemetry missing, it is what those detectors find that go on without. With all
    of it missing, nothing else is known. What a detector raises is in the context's `failures`.
    """
    missing = _ask(context, detectors, When.TELEMETRY_MISSING)
    if not context.observes_any:
        return missing
    if context.unobserved:
        detectors = [detector for detector in detectors if detector.needs is not Needs.EVERY_RANK]
    stalled = _ask(context, detectors, When.STALLED)
    lasting = _ask(context, detectors, When.ALWAYS)
    if stalled:
        return missing + stalled + lasting
    if nothing is not None:
        nothing.look(context)
    return missing + _ask(context, detectors, When.PROGRESSING, nothing) + lasting


def kinds_that_need(needs: Needs, detectors: Iterable[Detector]) -> frozenset[str]:
    """Values of the kinds of those detectors that need just that."""
    kind_sets = (detector.kinds for detector in detectors if detector.needs is needs)
    return frozenset(kind.value for kinds in kind_sets for kind in kinds)


def find_failures(context: DetectionContext, detectors: Sequence[Detector]) -> list[Finding]:
    """Why the attempt of `context` failed; empty while it has not."""
    return _ask(context, detectors, When.FAILED)


def failure_kinds(detectors: Iterable[Detector]) -> frozenset[str]:
    """Values of the kinds that say why an attempt failed."""
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
            except CONTAINED as error:  # the others go on
                context.failures.append((detector.kinds, error))
                continue
            findings += detected
            if cache is not None and not detected:
                cache.note(detector.order)
    return findings
