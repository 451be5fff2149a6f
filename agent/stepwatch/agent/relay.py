"""Sends spooled segments until the collector has acknowledged each; backs off while it cannot."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from stepwatch.agent.spool import Spool

logger = logging.getLogger(__name__)

BATCH = 64
"""Segments per request."""
_FIRST_DELAY, _LONGEST_DELAY = 0.25, 15.0


@dataclass
class Relay:
    """Moves segments from `spool` to the collector behind `client`."""

    spool: Spool
    client: httpx.Client
    failures: int = 0
    rejected: int = 0
    _delay: float = 0.0
    _down: bool = False

    def drain(self, wait: Callable[[float], bool]) -> None:
        """Send everything there is; `wait(seconds)` sleeps and returns True to give up."""
        while len(self.spool):
            delay = self.send_once()
            if delay and wait(delay):
                return

    def send_once(self) -> float:
        """Send one batch; returns the seconds to wait before the next try, 0 after success."""
        batch = self.spool.oldest(BATCH)
        if not batch:
            return 0.0
        try:
            body = b"".join(data for _, data in batch)
            response = self.client.post("/v1/segments", content=body)
        except httpx.HTTPError as error:
            return self._back_off(f"{type(error).__name__}: {error}", None)
        if response.status_code != 200:
            reason = f"HTTP {response.status_code}: {response.text[:200]}"
            return self._back_off(reason, response.headers.get("retry-after"))
        return self._acknowledge(batch, response)

    def _acknowledge(self, batch: list[tuple[int, bytes]], response: httpx.Response) -> float:
        verdicts = response.json().get("verdicts", [])
        if len(verdicts) != len(batch):
            return self._back_off(f"{len(verdicts)} verdicts for {len(batch)} segments", None)
        for (sequence, _), verdict in zip(batch, verdicts, strict=True):
            if verdict.get("verdict") == "rejected":
                self.rejected += 1
                logger.warning("segment %d was rejected: %s", sequence, verdict.get("reason"))
        self.spool.acknowledge(batch)
        if self._down:
            logger.info("the collector answers again")
        self._down, self._delay = False, 0.0
        return 0.0

    def _back_off(self, reason: str, retry_after: str | None) -> float:
        self.failures += 1
        if not self._down:
            logger.warning("the collector does not take segments (%s); spooling", reason)
        self._down = True
        self._delay = min(max(self._delay * 2, _FIRST_DELAY), _LONGEST_DELAY)
        asked = float(retry_after) if retry_after and retry_after.isdigit() else 0.0
        return max(min(asked, 60.0), self._delay * random.uniform(0.5, 1.0))
