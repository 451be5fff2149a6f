"""A collector is killed at each moment of a page: one page and one resolve come of an incident."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.store.paging.kills.chain import (
    CLAIM,
    NOTING,
    Chain,
    actions,
    reported,
    settled,
)
from tests.collector.store.paging.pager import Pager, Step, listening
from tests.postgresql import PostgresqlServer
from tests.waiting import until


def pagerduty(folder: Path, pager: Pager) -> str:
    return (
        f'[receiver.oncall]\nkind = "pagerduty"\nurl = "{pager.url}/v2/enqueue"\n'
        f'key_file = "{folder / "key"}"\n'
    )


@pytest.fixture(scope="module")
def pager() -> Iterator[Pager]:
    with listening() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def chain(
    postgresql: PostgresqlServer, pager: Pager, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("chain")
    new_chain = Chain(folder, postgresql, pager, pagerduty(folder, pager))
    try:
        new_chain.start()
        yield new_chain
    finally:
        new_chain.close()


def test_killed_at_each_moment_of_a_page_and_of_its_resolve(chain: Chain, pager: Pager) -> None:
    """Between evaluation and page; while the pager reads; after it took the page."""
    with chain.hold(CLAIM) as is_held:
        chain.breaks("unsent")
        until("a page that is about to be sent", is_held)
        chain.collectors[0].end()
    assert pager.seen == []
    chain.start()
    until("the page", lambda: len(actions(pager)) == 1)

    pager.script = [Step(seconds=30.0)]
    seen_count = len(pager.seen)
    chain.breaks("half-way")
    until("a page that is being sent", lambda: len(pager.seen) > seen_count)
    chain.collectors[0].end()
    pager.script = []
    chain.start()

    with chain.hold(NOTING) as is_held:
        chain.breaks("taken")
        until("a page that was taken and is not noted", is_held)
        chain.collectors[0].end()
    with chain.hold(CLAIM) as is_held:
        chain.start()
        chain.ends("unsent")
        until("a resolve that is about to be sent", is_held)
        chain.collectors[0].end()
    chain.start()
    chain.ends("half-way")
    chain.ends("taken")
    settled(chain, lambda: actions(pager), 3)
    until("nothing to wait", lambda: reported(chain.collectors[0])[OLDEST] == 0.0)
    assert "Traceback" not in chain.collectors[0].log.read_text()


OLDEST = 'stepwatch_collector_notices_oldest_seconds{receiver="oncall"}'
