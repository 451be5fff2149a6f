from __future__ import annotations

import math

from tests.verdicts.scenario.actual import Actual

from .sentence import numbers, untrue

TRUTH = Actual(rank=2, first_step=120, step_seconds=0.5, ratio=2.0, lost=0.42)
WORDS = (
    "rank 2 is slow in backward since step 118: 523 ms a step, its peers 254 ms (2.1x); "
    "the job lost 45% of its throughput"
)


def test_the_numbers_of_a_sentence_are_compared_with_what_is_true() -> None:
    assert numbers(WORDS) == {"ratio": 2.1, "lost": 45.0, "since": 118.0, "rank": 2.0}
    assert untrue(WORDS, TRUTH) == []
    wrong = WORDS.replace("rank 2", "rank 1").replace("118", "20").replace("2.1x", "1.0x")
    errors = untrue(wrong.replace("45%", "7%"), TRUTH)
    assert errors == ["rank 1/2", "since 20/120", "ratio 1/2", "lost 7/42"]


def test_what_is_not_said_is_no_lie_and_an_interval_says_how_sure_it_is() -> None:
    assert untrue("the job waits for data", TRUTH) == []
    assert untrue(WORDS.replace("(2.1x)", ""), TRUTH._replace(rank=-1, ratio=math.nan)) == []
    assert untrue(WORDS.replace("45%", "30%") + " (3% to 56%)", TRUTH) == []
    assert untrue(WORDS.replace("45%", "30%") + " (25% to 35%)", TRUTH) == ["lost 30/42"]
