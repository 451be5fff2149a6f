"""A short self-test of each device: compute and memory, with the result checked.

It says how fast this node is beside others that ran the same: a device at half of its neighbours'
speed is found before a job waits for it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from .result import Outcome, Result

SIZE = 1024
_SLOW_RATIO = 0.85
"""A device that reaches less of its node's median: the field's mean fail-slow is 1.34 times."""


def check(seconds: float) -> Iterator[Result]:
    """Multiply and copy for `seconds` on each device, or on the processors where there is none."""
    try:
        import torch
    except ImportError:
        yield Result("burn", Outcome.UNKNOWN, "torch is not installed", "pip install torch")
        return
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    devices = [f"cuda:{number}" for number in range(count)] or ["cpu"]
    each = seconds / (2 * len(devices))
    rates = {device: _rates(torch, torch.device(device), each) for device in devices}
    usual = [statistics.median(rate[at] for rate in rates.values()) for at in (0, 1)]
    for device, (flops, bandwidth, wrong) in rates.items():
        text = f"{device}: {flops / 1e12:.3g} TFLOP/s, {bandwidth / 1e9:.3g} GB/s of copies"
        if wrong:
            yield Result(
                "burn",
                Outcome.FAIL,
                f"{text}; {wrong} of its products differ from the first",
                "drain the node and have the device replaced",
                "the same product of the same numbers is the same, bit for bit",
            )
        elif flops < _SLOW_RATIO * usual[0] or bandwidth < _SLOW_RATIO * usual[1]:
            share = min(flops / usual[0], bandwidth / usual[1])
            yield Result(
                "burn",
                Outcome.WARN,
                f"{text}; {share:.0%} of the median of this node",
                "look at its clocks, heat and PCIe link",
                "compared with the other devices of the node in the same run",
            )
        else:
            yield Result("burn", Outcome.PASS, text)


def _rates(torch: Any, device: Any, seconds: float) -> tuple[float, float, int]:
    """Operations and bytes per second, and how many products were not as the first."""
    torch.manual_seed(1)
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    left, right = (torch.randn(SIZE, SIZE, device=device, dtype=kind) for _ in range(2))
    first = left @ right
    wrong = 0

    def multiply() -> None:
        nonlocal wrong
        wrong += not torch.equal(left @ right, first)

    block = torch.empty(SIZE * SIZE * 16, device=device, dtype=torch.uint8)
    other = torch.empty_like(block)

    def copy() -> None:
        other.copy_(block)

    times = _per_second(torch, device, multiply, seconds)
    copies = _per_second(torch, device, copy, seconds)
    return times * 2 * SIZE**3, copies * 2 * block.numel(), wrong


def _per_second(torch: Any, device: Any, work: Callable[[], None], seconds: float) -> float:
    """How often `work` is done in a second; the first time does not count."""
    work()
    times, begins = 0, time.monotonic()
    while time.monotonic() - begins < seconds or not times:
        for _ in range(4):
            work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times += 4
    return times / (time.monotonic() - begins)
