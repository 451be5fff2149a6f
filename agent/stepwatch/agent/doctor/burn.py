"""A short self-test: compute, memory and all-reduce, with verified results.

It compares this node's speed with other nodes that ran the same test, so that a half-speed device
is found before a job waits for it. All tests run in child processes: this process does not load
torch, and it abandons a child whose device hangs.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .children import ChildError, answers
from .children.pairs import MEET_SECONDS
from .result import Outcome, Problem, Result

START_SECONDS = 120.0
"""Seconds that torch, its processes and their connections may take in addition to the test."""
_SLOW_RATIO = 0.85
"""A device or node below this ratio to the median is slow; the field's mean fail-slow is 1.34
times."""


class Meeting(NamedTuple):
    """Rendezvous for the test between nodes: address, node count, own index and own name."""

    host: str
    port: int
    nodes: int
    node: int
    name: str


def check(seconds: float, meeting: Meeting | None = None) -> Iterator[Result]:
    """Test this node's devices and ranks for `seconds`, then node pairs for the same time."""
    try:
        records = answers("selftest", [f"{seconds:g}"], seconds + START_SECONDS)
    except (ChildError, ValueError) as error:
        yield _unknown("burn", error)
        records = []
    if devices := [record for record in records if "device" in record]:
        yield from _of_devices(devices)
    yield from (_of_reduction(record) for record in records if "ranks" in record)
    if meeting is not None:
        yield from _between(seconds, meeting)


def _unknown(name: str, error: Exception) -> Result:
    missing = isinstance(error, ChildError) and error.missing
    remedy = "pip install torch" if missing else "look at the device: did its driver hang?"
    problem = Problem.USER if missing else Problem.NODE
    return Result(name, Outcome.UNKNOWN, str(error), remedy, problem=problem)


def _of_devices(devices: Sequence[Mapping[str, Any]]) -> Iterator[Result]:
    usual = {
        name: statistics.median(device[name] for device in devices) for name in ("flops", "copied")
    }
    for device in devices:
        share = min(device[name] / usual[name] for name in usual)
        text = (
            f"{device['device']}: {device['flops'] / 1e12:.3g} TFLOP/s, "
            f"{device['copied'] / 1e9:.3g} GB/s of copies, "
            f"{device['tested_bytes'] >> 20} MiB of memory hold written data"
        )
        if device["wrong"] or device["wrong_bytes"]:
            wrong = f"{device['wrong']} products and {device['wrong_bytes']} bytes are wrong"
            remedy = "drain the node and have the device replaced"
            source = "the same product of the same numbers is the same, bit for bit; so is memory"
            yield Result("burn", Outcome.FAIL, f"{device['device']}: {wrong}", remedy, source)
        elif share < _SLOW_RATIO:
            source = "compared with the other devices of the node in the same run"
            remedy = "look at its clocks, heat and PCIe link"
            words = f"{text}; {share:.0%} of the median of this node"
            yield Result("burn", Outcome.WARN, words, remedy, source)
        else:
            yield Result("burn", Outcome.PASS, text)


def _of_reduction(reduction: Mapping[str, Any]) -> Result:
    rate = reduction["bytes_per_second"]
    text = f"{reduction['ranks']} ranks of this node reduce {rate / 1e9:.3g} GB/s"
    text += f" ({reduction['backend']})"
    if reduction["wrong"]:
        remedy = "drain the node: look at its links, and at memory between its ranks"
        wrong = f"{text}; {reduction['wrong']} sums of whole numbers are wrong"
        return Result("all-reduce", Outcome.FAIL, wrong, remedy, "sums of whole numbers are exact")
    return Result("all-reduce", Outcome.PASS, text)


def _between(seconds: float, meeting: Meeting) -> Iterator[Result]:
    words = [f"{seconds:g}", *map(str, meeting)]
    try:
        (report,) = answers("pairs", words, seconds + START_SECONDS + MEET_SECONDS)
    except (ChildError, ValueError) as error:
        destination = f"{meeting.nodes} nodes at {meeting.host}:{meeting.port}"
        remedy = "start the doctor on all of them within a minute; look at routes and firewalls"
        text = f"no test between {destination}: {error}"
        yield Result("pairs", Outcome.UNKNOWN, text, remedy, problem=Problem.NODE)
        return
    yield from ranked(report["names"], report["pairs"])


def ranked(names: Sequence[str], pairs: Sequence[Sequence[float]]) -> Iterator[Result]:
    """Yield one result per node, slowest first, ranked by the rate with its best peer.

    A slow node is slow with all peers. A node that met a slow node is fast with another one. Two
    nodes share one rate, so the slow one stays unknown.
    """
    best: dict[int, float] = {}
    for first, second, rate in pairs:
        for node in (int(first), int(second)):
            best[node] = max(rate, best.get(node, 0.0))
    usual = statistics.median(best.values())
    source = "each node's best rate with a peer, compared with the median of all nodes in this run"
    for place, node in enumerate(sorted(best, key=best.__getitem__), start=1):
        text = f"{names[node]}: {best[node] / 1e9:.3g} GB/s with its best peer, "
        text += f"{best[node] / usual:.0%} of the median, place {place} of {len(best)} from below"
        if best[node] < _SLOW_RATIO * usual:
            remedy = "look at its ports, cables and routes; leave it out until then"
            yield Result("pairs", Outcome.WARN, text, remedy, source)
        else:
            yield Result("pairs", Outcome.PASS, text, "", source)
