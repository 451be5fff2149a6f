"""How much one token of one node may send."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

REQUESTS_PER_SECOND, BYTES_PER_SECOND = 50.0, 16 << 20
"""One agent sends a request a second at most, and replays its spool one request after the other."""
BURST_SECONDS = 10.0
"""What was left unused for so long may be sent at once."""
_MOST_NODES = 1024
"""Nodes after which those that have their whole burst are forgotten."""


class Rates:
    """Allowances of requests and bytes by node, each refilled as time passes."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._spent: dict[str, tuple[float, float]] = {}
        """By node: until when the requests, and the bytes, that it sent are paid for."""

    def wait_for(self, node: str, size: int) -> int:
        """Spend a request of `size` bytes; returns 0, or after how many whole seconds to send it
        again, and then nothing is spent."""
        now = self._seconds()
        requests, data = (max(now, paid) for paid in self._spent.get(node, (now, now)))
        requests += 1 / REQUESTS_PER_SECOND
        excess_seconds = max(requests, data) - now - BURST_SECONDS
        if excess_seconds > 0:
            return math.ceil(excess_seconds)
        self._spent[node] = requests, data + size / BYTES_PER_SECOND
        if len(self._spent) > _MOST_NODES:
            self._spent = {n: paid for n, paid in self._spent.items() if max(paid) > now}
        return 0
