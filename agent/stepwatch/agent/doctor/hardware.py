"""Hardware and kernel checks: a few reads from the agent's probes."""

from __future__ import annotations

import time
from collections.abc import Iterator

from stepwatch.agent.facts.book import KnownFact
from stepwatch.agent.isolation.readings import Readings
from stepwatch.agent.probes import ProbeContext
from stepwatch.agent.probes.registry import discover
from stepwatch.signals.node_facts.actions import ACTIONS, Action
from stepwatch.signals.node_facts.catalogue import CATALOGUE, Severity
from stepwatch.signals.node_facts.xids import xid_of
from stepwatch.signals.records import NodeFact

from .result import Outcome, Result, Surroundings

ROUNDS_SECONDS = (0.0, 1.0, 1.0, 3.0)
"""Pauses before each read: rates need two reads, disks at least four seconds."""
_OUTCOMES = {
    Severity.FATAL: Outcome.FAIL,
    Severity.DEGRADED: Outcome.WARN,
    Severity.EVIDENCE: Outcome.PASS,
}
_LOOKED_AT = {
    "container": "control groups",
    "disk": "file systems, disks and file servers",
    "fabric": "network ports",
    "gpm": "NVIDIA devices' performance monitoring",
    "host": "processors, memory and clock source",
    "kernel-log": "the kernel's log",
    "nic": "network interfaces",
    "nvml": "NVIDIA devices",
    "topology": "devices, cards and NUMA nodes on the PCI bus",
}


def check(around: Surroundings) -> Iterator[Result]:
    """Yield one result per fact, and one per probe that found nothing or could not be read."""
    context = ProbeContext(
        around.clock, proc=around.proc, sys=around.sys, kernel_log=around.kernel_log
    )
    kinds = [kind for kind in discover() if kind.isolated and kind.is_enabled(context)]
    probes = [kind.build(context) for kind in kinds]
    readings = Readings(probes, around.clock)
    try:
        for seconds in ROUNDS_SECONDS:
            time.sleep(seconds)
            readings.read()
        present = readings.facts.present()
        guilty = {source for fact in present for source in fact.sources}
        yield from map(_of_fact, present)
        for probe in probes:
            if probe.name not in guilty:
                yield _of_probe(probe.name, readings)
    finally:
        readings.close()


def _of_fact(fact: KnownFact) -> Result:
    kind, action = CATALOGUE[fact.key.fact], CATALOGUE[fact.key.fact].action
    name = kind.name
    if fact.key.fact is NodeFact.XID:
        xid = xid_of(fact.key.code, fact.text)
        name, action = xid.because, xid.action
    often = f", {fact.count} times" if fact.count > 1 else ""
    outcome = _OUTCOMES[fact.severity]
    remedy = "" if outcome is Outcome.PASS or action is Action.NONE else ACTIONS[action]
    return Result(
        kind.name,
        outcome,
        f"{name} of {fact.key.subject}{often}: {fact.text}",
        remedy,
        kind.source,
    )


def _of_probe(name: str, readings: Readings) -> Result:
    subject = _LOOKED_AT.get(name, name)
    if (reason := readings.unknown.get(name)) is not None:
        return Result(
            name,
            Outcome.UNKNOWN,
            f"{subject}: unknown ({reason}): {readings.details.get(name, '')}",
            _CURES.get(name, "look at why it cannot be read"),
        )
    if not readings.up.get(name):
        detail = readings.details.get(name)
        if detail:
            return Result(name, Outcome.UNKNOWN, f"{subject}: {detail}", _CURES.get(name, ""))
        return Result(name, Outcome.PASS, f"{subject}: there is none here")
    return Result(name, Outcome.PASS, f"{subject}: nothing wrong")


_CURES = {
    "kernel-log": "run as root or with CAP_SYSLOG; in a container, mount the node's /dev/kmsg",
    "nvml": "look at nvidia-smi: does the driver answer?",
}
