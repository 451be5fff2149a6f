"""Facts of a run are put together from their pieces."""

from __future__ import annotations

from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.run_facts import RunFacts
from stepwatch.signals.records import Fact, Kind
from tests.collector.made import fact_rows, segment


def known_facts(*facts: Fact) -> dict[str, str]:
    attempt = Attempt(0)
    for sequence, fact in enumerate(facts, 1):
        tables = {Kind.LIFECYCLE: fact_rows(fact)}
        attempt.apply(segment(sequence, tables), Received(0.0, 0.0))
    assert attempt.lifecycle.events == [], "they are not among starts and ends"
    return attempt.tracker(RunFacts).facts()


def test_the_newer_value_of_a_name_counts() -> None:
    long = Fact("data.path", "/mnt/" + "a" * 100)
    assert known_facts(Fact("config.lr", "0.2"), long, Fact("config.lr", "0.1")) == {
        "config.lr": "0.1",
        "data.path": long.value,
    }


def test_facts_are_bounded() -> None:
    many = [Fact(f"config.{number}", "1") for number in range(RunFacts.most + 100)]
    assert len(known_facts(*many)) == RunFacts.most
