"""Where functions hang on the PCI bus, and what lies between two of them."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from stepwatch.signals.records import Nearness

UNKNOWN_NODE = -1
"""What the kernel writes into `numa_node` where the firmware does not say it."""
_BELOW_ONE_SWITCH = 2
"""Below the upstream port of a switch come its downstream port and the function itself."""


class Function(NamedTuple):
    """A function of the PCI bus: its address as 0000:3b:00.0, the ports above it from the host
    bridge down to itself, its NUMA node (-1 unknown), and the CPUs near it as the kernel lists
    them."""

    address: str
    path: tuple[str, ...]
    node: int
    cpus: str = ""


def read_function(folder: Path) -> Function | None:
    """The function whose folder this is, or a link to it; None for what is on no PCI bus.

    `/sys/bus/pci/devices/0000:3d:00.0` is a link to
    `/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:00.0/0000:3d:00.0`. Below the
    function may lie others' folders, such as that of a virtio device: they are left out.
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
    """The function with an address, with (0000:3b:00.0) or without its number (0000:3b:00)."""
    full_address = address if "." in address else f"{address}.0"
    if not _is_address(full_address):
        return None
    return read_function(sys / "bus" / "pci" / "devices" / full_address)


def nearness(first: Function, second: Function) -> Nearness:
    """What lies between two functions.

    Both below the switch whose upstream port is 0000:3b:00.0: PIX. Below two switches of one root
    port: PXB. Below two root ports of one host bridge: PHB.
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
    """The NUMA node of a function's folder; -1 where it is not known."""
    word = text(folder / "numa_node")
    return int(word) if word.isdecimal() and len(word) < 6 else UNKNOWN_NODE


def text(file: Path) -> str:
    """What a file holds, in one line; empty where it cannot be read."""
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return ""


def _is_address(name: str) -> bool:
    """Whether it is `domain:bus:device.function`."""
    domain, _, remainder = name.partition(":")
    bus, _, remainder = remainder.partition(":")
    device, _, function = remainder.partition(".")
    numbers = (domain, bus, device, function)
    return all(part and all(digit in "0123456789abcdef" for digit in part) for part in numbers)
