"""A device table: each device's NUMA node and CPUs, and its distance to each network card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stepwatch.agent.probes.topology.cards import Card, nearest, read_cards
from stepwatch.agent.probes.topology.numa import NumaNodes, read_nodes
from stepwatch.agent.probes.topology.pci import (
    UNKNOWN_NODE,
    Function,
    function_at,
    nearness,
    text,
)
from stepwatch.signals.records import Nearness

from .result import Outcome, Result, Surroundings

MAX_DEVICES = 64
NAME = "layout"
SOURCE = "PCI paths and numa_node below /sys; names as in the legend of `nvidia-smi topo --matrix`"
_NVIDIA, _DISPLAY = "0x10de", "0x03"


def check(around: Surroundings) -> Iterator[Result]:
    """Yield one result per device, and one for the node."""
    nodes, cards = read_nodes(around.sys), read_cards(around.sys)
    devices = read_devices(around.sys)
    yield _of_node(nodes, cards, devices)
    ways = [nearest(device, cards)[0] for device in devices]
    known_ways = [way for way in ways if way is not Nearness.UNKNOWN]
    for device, way in zip(devices, ways, strict=True):
        yield _of_device(device, way, cards, min(known_ways, default=Nearness.UNKNOWN), nodes)


def read_devices(sys: Path) -> list[Function]:
    """Return NVIDIA devices on the PCI bus, sorted by address, with or without a driver."""
    try:
        names = sorted(path.name for path in (sys / "bus/pci/devices").iterdir())
    except OSError:
        return []
    device_names = [name for name in names if _is_device(sys / "bus/pci/devices" / name)]
    functions = (function_at(sys, name) for name in device_names[:MAX_DEVICES])
    return [function for function in functions if function is not None]


def _is_device(folder: Path) -> bool:
    return text(folder / "vendor") == _NVIDIA and text(folder / "class").startswith(_DISPLAY)


def _of_node(nodes: NumaNodes, cards: list[Card], devices: list[Function]) -> Result:
    cpus = sum(map(len, nodes.cpus.values()))
    named = ", ".join(card.name for card in cards) or "none"
    words = f"{len(nodes.cpus)} NUMA node(s), {cpus} CPUs, {len(devices)} device(s), cards: {named}"
    if not nodes.cpus:
        remedy = "mount the node's /sys"
        return Result(NAME, Outcome.UNKNOWN, f"{words}: unknown on this node", remedy, SOURCE)
    return Result(NAME, Outcome.PASS, words, "", SOURCE)


def _of_device(
    device: Function, way: Nearness, cards: list[Card], best: Nearness, nodes: NumaNodes
) -> Result:
    place = "unknown" if device.node == UNKNOWN_NODE else str(device.node)
    near = ", ".join(f"{card.name} {nearness(device, card.function).name}" for card in cards)
    words = f"{device.address}: NUMA node {place}, CPUs {device.cpus or 'unknown'}; {near or '-'}"
    if device.node == UNKNOWN_NODE and len(nodes.cpus) > 1:
        remedy = "ranks cannot be placed near it: look at the firmware, or pass NUMA to the guest"
        return Result(NAME, Outcome.UNKNOWN, words, remedy, SOURCE)
    if way is Nearness.SYS and best < way:
        remedy = "another device is nearer to its card: is a card missing, or in the wrong slot?"
        return Result(NAME, Outcome.WARN, words, remedy, SOURCE)
    return Result(NAME, Outcome.PASS, words, "", SOURCE)
