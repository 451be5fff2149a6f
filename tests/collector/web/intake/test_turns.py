"""Turns are fair between clients, and none is lost."""

from __future__ import annotations

import asyncio

import pytest

from stepwatch.collector.web.intake.rates import BURST_SECONDS, REQUESTS_PER_SECOND, Rates
from stepwatch.collector.web.intake.turns import Turns


class Order:
    """Clients in the order in which they got their turns."""

    def __init__(self, most: int) -> None:
        self.turns = Turns(most)
        self.clients: list[str] = []

    async def take(self, client: str) -> None:
        async with self.turns.acquire(client):
            self.clients.append(client)
            await asyncio.sleep(0)


def test_a_client_that_sends_much_delays_itself() -> None:
    async def run() -> list[str]:
        order = Order(1)
        await asyncio.gather(*map(order.take, ["much"] * 50 + ["little"]))
        return order.clients

    clients = asyncio.run(run())
    assert len(clients) == 51 and clients.index("little") <= 2


def test_a_turn_that_nobody_waits_for_any_more_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwatch.collector.web.intake.turns.TURN_SECONDS", 0.05)

    async def run() -> list[str]:
        order = Order(1)
        async with order.turns.acquire("first"):
            waiting = [asyncio.create_task(order.take("late")) for _ in range(3)]
            results = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(result, TimeoutError) for result in results)
        await order.take("next")
        await asyncio.gather(order.take("a"), order.take("b"))
        return order.clients

    assert asyncio.run(run()) == ["next", "a", "b"]


def test_a_node_may_send_its_burst_and_then_its_rate() -> None:
    now = [100.0]
    rates = Rates(lambda: now[0])
    burst = round(REQUESTS_PER_SECOND * BURST_SECONDS)
    assert {rates.wait_for("node-0", 1) for _ in range(burst)} == {0}
    assert rates.wait_for("node-0", 1) == 1
    assert rates.wait_for("node-1", 1) == 0, "each node has its own"
    now[0] += 1.0
    assert {rates.wait_for("node-0", 1) for _ in range(round(REQUESTS_PER_SECOND))} == {0}
    assert rates.wait_for("node-0", 1) == 1


def test_bytes_that_were_sent_too_fast_are_waited_for() -> None:
    rates = Rates(lambda: 0.0)
    sizes = [rates.wait_for("node-0", 64 << 20) for _ in range(4)]
    assert sizes[:3] == [0, 0, 0] and sizes[3] > 1


def test_nodes_that_sent_long_ago_are_forgotten() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    for number in range(5000):
        now[0] += 0.1
        rates.wait_for(f"node-{number}", 1000)
    assert len(rates._spent) < 2000
