"""PCI functions, and the distance between two functions."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.records import Nearness

UNKNOWN_NODE = -1
"""The `numa_node` value if the firmware does not report it."""
_BELOW_ONE_SWITCH = 2
"""Below a switch's upstream port are its downstream port and the function."""


class Function(NamedTuple):
    """A PCI function.

    `address` is like 0000:3b:00.0. `path` has the ports from the host bridge down to the function.
    `node` is its NUMA node (-1 unknown), and `cpus` is the kernel's list of near CPUs.
    """

    address: str
    path: tuple[str, ...]
    node: int
    cpus: str = ""


def read_function(folder: Path) -> Function | None:
    """Return the function for a folder or a link to it; None if it is not on a PCI bus.

    `/sys/bus/pci/devices/0000:3d:00.0` is a link to
    `/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:00.0/0000:3d:00.0`. Folders below the
    function, such as a virtio device's, are skipped.
    """
    try:
        place = folder.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    parts = place.parts
    begins = next((index for index, part in enumerate(parts) if part.startswith("pci")), len(parts))
    bridge = parts[begins : begins + 1]
    below = tuple(takewhile(_is_address, parts[begins + 1 :]))
    if not below:
        return None
    folder_of_function = Path(*parts[: begins + 1 + len(below)])
    return Function(
        below[-1],
        bridge + below,
        node_of(folder_of_function),
        text(folder_of_function / "local_cpulist"),
    )


def function_at(sys: Path, address: str) -> Function | None:
    """Return the function at an address with (0000:3b:00.0) or without its number (0000:3b:00)."""
    full_address = address if "." in address else f"{address}.0"
    if not _is_address(full_address):
        return None
    return read_function(sys / "bus" / "pci" / "devices" / full_address)


def nearness(first: Function, second: Function) -> Nearness:
    """Return the distance class between two functions.

    PIX: both are below the switch with upstream port 0000:3b:00.0. PXB: below two switches at one
    root port. PHB: below two root ports at one host bridge.
    """
    shared = 0
    for left_port, right_port in zip(first.path, second.path, strict=False):
        if left_port != right_port:
            break
        shared += 1
    if shared > 1:
        deepest = max(len(first.path), len(second.path)) - shared
        return Nearness.PIX if deepest <= _BELOW_ONE_SWITCH else Nearness.PXB
    if shared == 1:
        return Nearness.PHB
    if UNKNOWN_NODE in (first.node, second.node):
        return Nearness.UNKNOWN
    return Nearness.NODE if first.node == second.node else Nearness.SYS


def node_of(folder: Path) -> int:
    """Return the NUMA node for a function's folder; -1 if unknown."""
    word = text(folder / "numa_node")
    return int(word) if word.isdecimal() and len(word) < 6 else UNKNOWN_NODE


def text(file: Path) -> str:
    """Return a file's content without surrounding blanks; empty if it cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _is_address(name: str) -> bool:
    """Return whether the name is `domain:bus:device.function`."""
    domain, _, remainder = name.partition(":")
    bus, _, remainder = remainder.partition(":")
    device, _, function = remainder.partition(".")
    numbers = (domain, bus, device, function)
    return all(part and all(digit in "0123456789abcdef" for digit in part) for part in numbers)
