"""Collectors and PostgreSQL are killed at random moments, with a pager that fails now and then."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.collector.store.paging.kills.chain import Chain, actions, settled
from tests.collector.store.paging.kills.test_collector import pagerduty
from tests.collector.store.paging.pager import Pager, Step, listening
from tests.postgresql import PostgresqlServer
from tests.waiting import until

JOBS = 20
FAILING = (
    Step(500),
    Step(503, headers=(("retry-after", "1"),)),
    Step(429, headers=(("retry-after", "1"),)),
    Step(200, b"<html>log in first</html>"),
    Step(raw=b"HTTP/1.1 202 Acc"),
    Step(raw=b""),
    Step(seconds=3.0),
)


@pytest.mark.matrix
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_killed_at_random_moments(seed: int, tmp_path: Path) -> None:
    """Two collectors, one database: each incident has one page and one resolve by its key."""
    chance = random.Random(seed)
    server = PostgresqlServer()
    server.start()
    with listening() as pager:
        chain = Chain(tmp_path, server, pager, pagerduty(tmp_path, pager), count=2)
        try:
            chain.start()
            for number in range(JOBS):
                happens(chain, chance, pager, f"job-{number}", ends=False)
            until("all incidents", lambda: len(chain.incidents()) == JOBS)
            for number in range(JOBS):
                happens(chain, chance, pager, f"job-{number}", ends=True)
            settled(chain, lambda: actions(pager), JOBS, seconds=6.0)
            for collector in chain.collectors:
                assert "Traceback" not in collector.log.read_text()
        finally:
            chain.close()
            server.remove()


def happens(chain: Chain, chance: random.Random, pager: Pager, job: str, *, ends: bool) -> None:
    """A job breaks or ends, and something is killed within the second in which it pages."""
    pager.script = [chance.choice(FAILING) for _ in range(chance.randrange(3))]
    (chain.ends if ends else chain.breaks)(job)
    time.sleep(chance.uniform(0.0, 2.5))
    match chance.randrange(4):
        case 0:
            chain.server.kill()
            time.sleep(chance.uniform(0.0, 1.0))
            chain.server.start()
        case 1:
            chance.choice(chain.collectors).end()
            chain.start()
        case 2:
            chain.server.kill()
            chance.choice(chain.collectors).end()
            chain.server.start()
            chain.start()
