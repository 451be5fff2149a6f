"""Work that differs by nature names nobody; what is twice as slow is still named in seconds."""

from __future__ import annotations

import numpy as np
import pytest

from stepwatch.collector.detect.finding import Finding
from stepwatch.collector.detect.straggler import LIMITS, detect
from stepwatch.collector.state.evidence.step_window import Window
from stepwatch.collector.statistics.tails import log_chance
from tests.collector.detect.windows import settle, slow, unknown_facts, window


def findings_of(step_window: Window) -> list[Finding]:
    return detect(step_window, unknown_facts(len(step_window.stage)), LIMITS)


def lengths(values: np.ndarray, ranks: int, seed: int, steps: int = 400) -> Window:
    """Forward and backward in proportion to lengths that each rank draws by itself."""
    generator = np.random.default_rng(seed)
    step_window = window(steps, ranks, noise=0.02, seed=seed)
    factor = generator.choice(values, (steps, ranks)).astype(np.float32)
    for phase in ("forward", "backward"):
        step_window.planes[phase][:] *= factor
    settle(step_window)
    return step_window


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("values", [[1.0, 3.0], [1.0, 1.0, 1.0, 5.0], np.linspace(0.3, 3.0, 50)])
def test_lengths_that_differ_by_nature_name_nobody(ranks: int, values: list[float]) -> None:
    step_window = lengths(np.asarray(values), ranks, seed=ranks)
    for end in range(16, 400, 3):
        assert findings_of(step_window.select(np.arange(max(0, end - 128), end))) == []


@pytest.mark.parametrize(("ranks", "steps"), [(2, 18), (4, 11), (8, 9), (64, 7)])
def test_twice_as_slow_from_the_first_step_is_named_in_few(ranks: int, steps: int) -> None:
    step_window = window(steps, ranks, noise=0.03)
    for phase in ("forward", "backward"):
        slow(step_window, 1, phase, float(step_window.planes[phase].mean()), since=0)
    assert [item.rank for item in findings_of(step_window)] == [1]


def test_the_chance_is_that_of_drawing_all_far_cells_first() -> None:
    """One far cell of two steps, none in the other two: as likely as not to be here, 1 in 4."""
    assert np.exp(log_chance(1, 1, 0, 2)) == pytest.approx(1 / 4)
    assert np.exp(log_chance(7, 7, 0, 16)) == pytest.approx(1 / 346104, rel=1e-6)
    assert log_chance(7, 8, 0, 16) == pytest.approx(log_chance(7, 7, 0, 16) + np.log(8))


def test_long_steps_that_only_most_are_of_two_ranks_at_a_start_name_nobody() -> None:
    """Both draw one of two lengths; of twelve steps one rank was alone with the long one in eight,
    the other never: nobody has seen yet that it may."""
    step_window = window(12, 2, noise=0.01)
    for phase in ("forward", "backward"):
        step_window.planes[phase][[0, 2, 4, 5, 7, 8, 10, 11], 1] *= 2.1
        step_window.planes[phase][3] *= 2.1
    settle(step_window)
    for end in range(5, 13):
        assert findings_of(step_window.select(np.arange(end))) == []


def test_a_long_step_of_its_peer_hides_none_of_the_others() -> None:
    """Seven of eight steps of ten seconds, of which the peer had one by chance."""
    step_window = window(108, 2, noise=0.02)
    slow(step_window, 1, "backward", 9.0, since=100)
    step_window.planes["backward"][102, 0] += 9.0
    settle(step_window)
    assert [item.rank for item in findings_of(step_window)] == [1]


def longer_at_last(ranks: int, tokens: float, times: float = 2.2) -> Window:
    """The last rank has the longer sequences in six steps, as chance has it now and then, and
    reports so many times the tokens of the others."""
    step_window = window(40, ranks, noise=0.02)
    for phase in ("forward", "backward"):
        step_window.planes[phase][34:, ranks - 1] *= times
    step_window.planes["tokens"][:] = 100.0
    step_window.planes["tokens"][34:, ranks - 1] *= tokens
    settle(step_window)
    return step_window


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("tokens", [1.9, 3.0])
def test_a_rank_that_has_more_tokens_has_more_to_do(ranks: int, tokens: float) -> None:
    assert findings_of(longer_at_last(ranks, tokens)) == []
    (slow,) = findings_of(longer_at_last(ranks, 1.0))
    assert slow.rank == ranks - 1


@pytest.mark.parametrize("tokens", [1.3, 0.5, 50.0, 0.0, np.nan])
def test_tokens_that_do_not_explain_it_or_are_none_hide_nobody(tokens: float) -> None:
    (slow,) = findings_of(longer_at_last(4, tokens))
    assert slow.rank == 3


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_twice_as_slow_all_at_once_is_named_after_six_steps(ranks: int) -> None:
    step_window = window(100, ranks, noise=0.03)
    slow(step_window, 1, "backward", 0.4, since=94)
    assert [(item.rank, item.began_step) for item in findings_of(step_window)] == [(1, 194)]


@pytest.mark.parametrize(("noise", "steps"), [(0.02, 2), (0.2, 3)])
def test_far_beyond_all_that_was_seen_needs_fewer_steps(noise: float, steps: int) -> None:
    """Steps of ten seconds after a hundred short ones."""

    def named(count: int) -> list[int]:
        step_window = window(100 + count, 4, noise=noise)
        slow(step_window, 1, "backward", 9.0, since=100)
        return [item.rank for item in findings_of(step_window)]

    assert [named(count) for count in range(1, steps)] == [[]] * (steps - 1)
    assert named(steps) == [1]


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_of_a_job_that_one_rank_slows_from_its_first_step_noise_is_that_of_the_work(
    ranks: int,
) -> None:
    """All of its steps are ten times as long as usual ones, and nothing else in it is."""

    def named(count: int) -> list[int]:
        step_window = window(count, ranks, noise=0.03)
        slow(step_window, 1, "backward", 9.0, since=0)
        return [item.rank for item in findings_of(step_window)]

    assert named(2) == []
    assert named(3) == [1]


def test_steps_that_are_as_long_by_nature_now_and_then_name_nobody() -> None:
    """One in fifty of each rank takes eight times as long, any of them twice in a row by chance."""
    dice = np.random.default_rng(5)
    step_window = window(4_000, 8, noise=0.05)
    hit = dice.random(step_window.planes["backward"].shape) < 0.02
    step_window.planes["backward"][hit] *= 8.0
    for rows, rank in zip(*np.nonzero(hit), strict=True):
        if dice.random() < 0.1 and rows + 1 < 4_000:
            step_window.planes["backward"][rows + 1, rank] *= 8.0
    settle(step_window)
    for end in range(200, 4_000, 7):
        assert findings_of(step_window.select(np.arange(end - 128, end))) == []
