"""Rate limit for one node's token."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

REQUESTS_PER_SECOND, BYTES_PER_SECOND = 50.0, 16 << 20
"""Limits per node: an agent sends at most one request a second, and replays its spool serially."""
BURST_SECONDS = 10.0
"""Unused allowance over this time may be sent at once."""
_MOST_NODES = 1024
"""Number of nodes beyond which nodes with a full allowance are dropped."""


class Rates:
    """Token buckets for requests and bytes by node."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._spent: dict[str, tuple[float, float]] = {}
        """By node: the times until which its requests and its bytes are paid for."""

    def wait_for(self, node: str, size: int) -> int:
        """Spend one request with `size` bytes and return 0, or return the seconds until a retry.

        If a retry is needed, nothing is spent.
        """
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
