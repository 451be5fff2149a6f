"""A month of device-time of made-up jobs, as a collector would have stored it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from stepwatch.collector.slo.waste import CAUSES
from stepwatch.collector.store.accounts import AccountDay

FIRST_DAY = 1_790_812_800
"""2026-10-01, Unix seconds."""
DAY_SECONDS = 86_400
_DEVICES = 64
PROJECTS = ("llama", "vision", "<b>speech</b>")
_SHARES = (80.0, 1, 2, 4, 2, 4, 1, 1, 2, 1.5, 1, 0.5)
"""What a day's device-time goes to, percent, in the order of the causes: about these."""


def month(jobs: int, classes: Sequence[str], days: int = 30) -> Iterator[AccountDay]:
    """So many jobs, each a class and a project in turn, 64 devices all day long."""
    random = np.random.default_rng(26)
    allocated_us = _DEVICES * DAY_SECONDS * 1_000_000
    for job in range(jobs):
        for day in range(days):
            shares = random.dirichlet(_SHARES)
            spent = {
                str(cause): int(share * allocated_us)
                for cause, share in zip(CAUSES, shares, strict=True)
            }
            document: dict[str, Any] = {**spent, "tokens": 5_000_000_000, "steps": 8_000}
            document["owner"] = {"project": PROJECTS[job % len(PROJECTS)]}
            start = FIRST_DAY + day * DAY_SECONDS
            yield AccountDay(f"pretrain-{job:03}", start, classes[job % len(classes)], document)
