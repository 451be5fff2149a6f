"""A job that slowed down as a whole is reported; busy hosts, pauses and longer texts are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.analysis.first_steps import Course
from stepwatch.collector.detect import throughput_regression
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.detect.throughput_regression import Shift

LIMITS = throughput_regression.LIMITS
TOKENS = 4096.0


def course(
    steps: int, noise: float = 0.0, seed: int = 0, seconds: float = 0.5, tokens: float = TOKENS
) -> Course:
    """A healthy run of even steps with lognormal noise, from step 3 on."""
    times = seconds * np.random.default_rng(seed).lognormal(0.0, noise, steps)
    return ended(Course(np.arange(3, 3 + steps), times, times, np.full(steps, tokens)))


def ended(history: Course) -> Course:
    """The course with ends that fit its seconds."""
    return history._replace(end_s=1e9 + np.cumsum(history.seconds))


def slowed(history: Course, factor: float, since: int, until: int | None = None) -> Course:
    """The course with longer steps from an index on."""
    seconds = history.seconds.copy()
    seconds[since:until] *= factor
    return ended(history._replace(seconds=seconds))


def findings_of(history: Course, peers: list[float] | None = None) -> list[Finding]:
    return throughput_regression.detect(history, history.part(slice(20)), peers or [], None, LIMITS)


@pytest.mark.parametrize("factor", [1.5, 3.0])
@pytest.mark.parametrize("seconds", [0.1, 1.0, 20.0])
def test_a_lasting_slow_down_is_told_with_its_step(factor: float, seconds: float) -> None:
    history = slowed(course(4000, 0.1, seconds=seconds), factor, 2000)
    (finding,) = findings_of(history)
    assert (finding.rank, finding.cause) == (NO_RANK, "all-ranks-slower")
    assert abs(finding.began_step - 2003) <= 5
    assert finding.ratio == pytest.approx(factor, rel=0.05)
    assert finding.lost_ratio == pytest.approx(1 - 1 / factor, abs=0.05)


def test_it_takes_two_minutes() -> None:
    healthy = 400
    reported = [
        count
        for count in range(0, 300, 5)
        if findings_of(slowed(course(healthy + count, 0.05, seconds=1.0), 2.0, healthy))
    ]
    assert (
        LIMITS.slow_share * LIMITS.least_seconds / 2 <= reported[0] <= LIMITS.least_seconds / 2 + 5
    )


@pytest.mark.parametrize("length", [1.0, 10.0, 60.0])
def test_a_neighbour_that_goes_away_is_not_told(length: float) -> None:
    history = course(600, 0.1)
    for end in range(400, 600, 3):
        busy = slowed(history, 3.0, 400, 400 + int(length / 1.5))
        assert findings_of(ended(busy.part(slice(end)))) == []


def test_a_slow_down_that_is_over_is_not_told() -> None:
    assert findings_of(slowed(course(1000, 0.1), 3.0, 500, 985)) == []


def test_a_young_run_is_not_judged() -> None:
    assert findings_of(slowed(course(60), 3.0, 25)) == []
    assert findings_of(course(0)) == []


def test_the_first_steps_scatter_so_must_the_later_ones_exceed_them() -> None:
    history = slowed(course(1000, 0.6, seed=1), 1.4, 20)
    assert findings_of(history) == []


def test_longer_steps_of_more_tokens_are_no_regression() -> None:
    history = course(1000, 0.05)
    history.tokens[500:] *= 2
    assert findings_of(slowed(history, 2.0, 500)) == []
    (finding,) = findings_of(slowed(history, 3.2, 500))
    assert finding.ratio == pytest.approx(1.6, rel=0.05)


def test_the_baseline_is_shown_as_it_was_where_steps_hold_more_tokens() -> None:
    history = course(1000, seconds=0.5)
    history.tokens[500:] *= 2
    (finding,) = findings_of(slowed(history, 4.0, 500))
    assert "2.00 s a step, 2.00x" in finding.summary and "per token" in finding.summary
    rows = {row.name: row for row in finding.evidence}
    assert "500 ms" in rows["step time"].against
    assert "8192" in rows["tokens per second"].against


def test_shorter_steps_of_fewer_tokens_are_no_regression() -> None:
    history = course(1000, 0.05)
    history.tokens[500:] /= 2
    assert findings_of(slowed(history, 0.8, 500)) == []


def test_unknown_tokens_leave_the_step_time() -> None:
    history = slowed(course(1000, 0.05, tokens=0.0), 2.0, 500)
    (finding,) = findings_of(history)
    assert finding.ratio == pytest.approx(2.0, rel=0.05)
    assert [row.name for row in finding.evidence] == ["step time"]


def test_the_part_that_grew_and_the_class_are_in_the_words() -> None:
    history, peers = slowed(course(1000, 0.02), 2.0, 500), [8192.0, 8100.0, 8300.0]
    shift = Shift("backward", 0.7, 0.2)
    (finding,) = throughput_regression.detect(
        history, history.part(slice(20)), peers, shift, LIMITS
    )
    assert finding.phase == "backward"
    assert finding.summary.endswith(
        "2.00x the baseline, most of it in backward; at 50% of its class"
    )


def test_a_job_that_has_always_been_slow_is_told_by_its_class() -> None:
    history = course(1000, 0.05, seconds=1.0)
    (finding,) = findings_of(history, [8192.0, 8100.0, 8300.0])
    assert "of its class: 3 jobs of the same size" in finding.summary
    assert finding.ratio == pytest.approx(2.0, rel=0.05)
    assert findings_of(history, [8192.0, 8100.0]) == [], "too few"
    assert findings_of(history, [8192.0, 4000.0, 20000.0, 900.0]) == [], "different models"
    assert findings_of(history, [4300.0, 4200.0, 4100.0]) == []


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    noise=st.floats(0.0, 0.5),
    seconds=st.floats(0.01, 30.0),
    steps=st.integers(0, 1500),
)
def test_noise_is_silent(seed: int, noise: float, seconds: float, steps: int) -> None:
    assert findings_of(course(steps, noise, seed, seconds)) == []
