"""Counters that grow, are reset, wrap, or come and go."""

from __future__ import annotations

from stepwatch.agent.facts.growth import WINDOW_SECONDS, Growth


def test_growth_is_that_of_the_newest_minute() -> None:
    growth = Growth()
    counts = [growth.measure("port", {"errors": second}, float(second)).by_name["errors"]
              for second in range(200)]  # fmt: skip
    assert counts[30] == 30 and max(counts) <= WINDOW_SECONDS + 1


def test_a_counter_that_wraps_or_is_reset_is_counted_from_there_on() -> None:
    growth, most = Growth(), 2**32 - 1
    assert growth.measure("port", {"errors": most - 5}, 0.0).by_name == {"errors": 0}
    assert growth.measure("port", {"errors": most}, 1.0).by_name == {"errors": 5}
    assert growth.measure("port", {"errors": 3}, 2.0).by_name == {"errors": 0}, "it began anew"
    assert growth.measure("port", {"errors": 13}, 3.0).by_name == {"errors": 10}, (
        "and grows at once"
    )


def test_a_counter_that_is_gone_and_back_did_not_grow_meanwhile() -> None:
    growth = Growth()
    growth.measure("port", {"errors": 7, "downs": 1}, 0.0)
    assert growth.measure("port", {"downs": 1}, 1.0).by_name == {"downs": 0}
    assert growth.measure("port", {"errors": 900, "downs": 2}, 2.0).by_name == {
        "errors": 0,
        "downs": 1,
    }
