"""The first step and the rank that began, whatever the others hold afterwards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.detect import non_finite
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.signals.names import Cause
from stepwatch.signals.records import LOSS_SCALED, SCALER_STEPS, Kind, NumericsSource, make_rows
from stepwatch.signals.wire import Rows

LIMITS = non_finite.LIMITS
INPUT, LOSS = NumericsSource.COLLECTIVE_INPUT, NumericsSource.LOSS
Fact = tuple[int, int, NumericsSource]
NORM, SHARE = NumericsSource.GRAD_NORM, NumericsSource.GRAD_NORM_SHARE


def rows(*facts: tuple[int, int, NumericsSource], text: bytes = b"") -> Rows:
    """NUMERICS rows of (rank, step, source)."""
    names = ("rank", "step", "source")
    columns = {name: [fact[place] for fact in facts] for place, name in enumerate(names)}
    return make_rows(Kind.NUMERICS, len(facts), nonfinite=1, text=text, **columns)


def everybody(step: int, source: NumericsSource, world: int = 4) -> list[Fact]:
    """What all ranks say in a step."""
    return [(rank, step, source) for rank in range(world)]


def detect(table: Rows, complete: int = 100, newest: int = 100) -> list[Finding]:
    return non_finite.detect(table, complete, newest, LIMITS)


def test_finite_values_are_no_finding() -> None:
    assert detect(rows()) == []
    digests = rows((0, 3, NumericsSource.PARAMETERS))
    digests["nonfinite"] = 0
    assert detect(digests) == []


def test_one_rank_began_and_all_hold_it_since() -> None:
    facts = [(2, 12, INPUT), *everybody(12, NORM), *everybody(13, INPUT), *everybody(13, LOSS)]
    (finding,) = detect(rows(*facts, text=b"layers.3.weight"))
    assert (finding.rank, finding.began_step, finding.phase) == (2, 12, "backward")
    assert finding.cause is Cause.NON_FINITE_GRADIENT
    assert "rank 2" in finding.summary and "layers.3.weight" in finding.summary


def test_a_loss_that_was_not_finite_came_before_its_gradient() -> None:
    (finding,) = detect(rows((1, 5, LOSS), (1, 5, INPUT), *everybody(5, NORM)))
    assert (finding.rank, finding.phase, finding.cause) == (1, "forward", Cause.NON_FINITE_LOSS)


def test_the_source_that_tells_ranks_apart_is_believed() -> None:
    (finding,) = detect(rows(*everybody(5, LOSS), (3, 5, SHARE), *everybody(5, NORM)))
    assert (finding.rank, finding.cause) == (3, Cause.NON_FINITE_LOSS)


@pytest.mark.parametrize("source", [INPUT, LOSS, NORM])
def test_several_ranks_at_once_are_told_as_such(source: NumericsSource) -> None:
    (finding,) = detect(rows(*everybody(5, source, 20)))
    assert finding.rank == NO_RANK and finding.began_step == 5
    assert "20 ranks at once (0-19)" in finding.summary


def test_the_name_of_a_tensor_is_shown_as_it_is_for_several_ranks() -> None:
    (finding,) = detect(rows(*everybody(5, INPUT), text=b"lm_head.logits_proj.weight"))
    assert "what they put into a reduction (lm_head.logits_proj.weight)" in finding.summary


def test_a_step_that_is_not_complete_may_still_hold_another_rank() -> None:
    table = rows((2, 12, INPUT))
    assert detect(table, complete=11, newest=12) == []
    assert detect(table, complete=12, newest=12)[0].rank == 2
    assert detect(table, complete=11, newest=12 + LIMITS.settle_steps)[0].rank == 2
    assert non_finite.detect(table, 11, 12, LIMITS, over=True)[0].rank == 2


def scaled(rank: int, steps: range) -> Rows:
    """Gradients of a scaled loss, not finite in these steps."""
    table = rows(*[(rank, step, INPUT) for step in steps])
    table["source"] |= LOSS_SCALED
    return table


def test_a_scaler_may_overflow_but_not_for_ever() -> None:
    limit = SCALER_STEPS
    assert detect(scaled(1, range(limit))) == []
    assert detect(np.concatenate([scaled(1, range(limit)), scaled(1, range(60, 90))])) == []
    (finding,) = detect(np.concatenate([scaled(1, range(limit + 1)), scaled(2, range(60, 61))]))
    assert (finding.rank, finding.began_step) == (1, 0)


def test_a_loss_that_is_not_finite_is_told_beside_an_overflow() -> None:
    (finding,) = detect(np.concatenate([scaled(1, range(2, 9)), rows((0, 8, LOSS))]))
    assert (finding.rank, finding.began_step, finding.phase) == (0, 8, "forward")


FACT = st.tuples(st.integers(0, 7), st.integers(0, 50), st.sampled_from([INPUT, LOSS, NORM, SHARE]))


@given(st.lists(FACT, min_size=1, max_size=40), st.randoms())
def test_any_order_of_arrival_gives_the_first_step(
    facts: list[tuple[int, int, NumericsSource]], random: object
) -> None:
    (finding,) = detect(rows(*facts))
    assert finding.began_step == min(step for _, step, _ in facts)
    ranks = {rank for rank, step, _ in facts if step == finding.began_step}
    assert finding.rank in ranks or (finding.rank == NO_RANK and len(ranks) > 1)
    shuffled = list(facts)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert detect(rows(*shuffled)) == [finding]
