"""What a resume continues: learning rate and data order, from the steps that ranks reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from stepwatch.collector.analysis.resumes.data_order import DataOrder, data_order
from stepwatch.collector.analysis.resumes.earlier import Resume, first_losses
from stepwatch.collector.analysis.resumes.learning_rate import rate_continued
from stepwatch.collector.state.attempt import Attempt
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.checkpoints import Checkpoint
from stepwatch.signals.records import Kind
from tests.collector.made import segment, state_rows, step_rows
from tests.collector.state.trackers.metrics.test_metrics import WORLD, metric_rows, name_rows

Value = Callable[[int], float]
SAVED, KILLED, END = 100, 130, 140


def run(steps: range, every: int = 1, **metrics: Value) -> Attempt:
    """An attempt of four ranks that record metrics; rank `r` reads the sample `r` further on."""
    attempt = Attempt(0)
    numbers = {number: name for number, name in enumerate(metrics, 1)}
    recorded = [step for step in steps if step % every == 0]
    rows = [
        metric_rows(step, [value(step) + rank * (name == "sample") for rank in range(WORLD)], place)
        for place, (name, value) in enumerate(metrics.items(), 1)
        for step in recorded
    ]
    tables = {
        Kind.STEP: step_rows(steps, range(WORLD)),
        Kind.RANK_STATE: state_rows(range(WORLD), WORLD, 80.0),
    }
    if rows:
        tables |= {Kind.METRIC_NAME: name_rows(numbers), Kind.METRIC: np.concatenate(rows)}
    attempt.apply(segment(1, tables), Received(0.0, 0.0))
    return attempt


def resumed(
    before: Mapping[str, Value], after: Mapping[str, Value], until: int = KILLED, every: int = 1
) -> Resume:
    """A run up to a step, and one from `SAVED` on."""
    first, second = run(range(until), every, **before), run(range(SAVED, END), every, **after)
    return Resume(second, SAVED, [(first, SAVED)], first)


def warm_up(step: int) -> float:
    return 1e-3 * min(1.0, (step + 1) / 120)


def decay(step: int) -> float:
    return 1e-3 * 0.99**step


def constant(step: int) -> float:
    return 1e-3


def milestone(step: int) -> float:
    return 1e-3 if step < SAVED else 1e-4


@pytest.mark.parametrize("until", [SAVED, KILLED])
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("schedule", [warm_up, decay, constant])
def test_a_rate_that_follows_its_schedule_continued(
    schedule: Value, every: int, until: int
) -> None:
    rates = {"lr": schedule}
    assert rate_continued(resumed(rates, rates, until, every)) is True


@pytest.mark.parametrize("until", [SAVED, KILLED])
@pytest.mark.parametrize("schedule", [warm_up, decay])
def test_a_schedule_that_begins_again_did_not_continue(schedule: Value, until: int) -> None:
    again = resumed({"lr": schedule}, {"lr": lambda step: schedule(step - SAVED)}, until)
    assert rate_continued(again) is False


def test_another_rate_than_in_the_same_steps_did_not_continue() -> None:
    for every in (1, 10):
        other = resumed({"lr": constant}, {"lr": lambda step: 1e-2}, every=every)
        assert rate_continued(other) is False


def test_a_rate_that_may_be_a_step_of_the_schedule_is_unknown() -> None:
    rates = {"lr": milestone}
    assert rate_continued(resumed(rates, rates, SAVED)) is None
    assert rate_continued(resumed(rates, rates, KILLED)) is True


@pytest.mark.parametrize(("before", "after"), [({}, {"lr": decay}), ({"lr": decay}, {})])
def test_a_rate_that_one_run_does_not_record_is_unknown(
    before: dict[str, Value], after: dict[str, Value]
) -> None:
    assert rate_continued(resumed(before, after)) is None


def test_the_first_steps_stay_known_in_a_long_attempt() -> None:
    first, second = run(range(KILLED), lr=decay), run(range(SAVED, SAVED + 2000), lr=decay)
    assert rate_continued(Resume(second, SAVED, [(first, SAVED)], first)) is True
    assert len(first_losses(second)) == 23


def sample(step: int) -> float:
    return 8.0 * step


def again(step: int) -> float:
    return sample(step - SAVED)


@pytest.mark.parametrize("until", [SAVED, KILLED])
def test_samples_that_follow_show_an_order_that_continued(until: int) -> None:
    positions = {"sample": sample, "epoch": lambda step: 0.0}
    assert data_order(resumed(positions, positions, until)) is DataOrder.CONTINUED


@pytest.mark.parametrize("until", [SAVED, KILLED])
def test_the_first_samples_again_show_an_order_that_restarted(until: int) -> None:
    assert data_order(resumed({"sample": sample}, {"sample": again}, until)) is DataOrder.RESTARTED


def test_a_run_that_counts_from_zero_again_is_compared_by_its_place() -> None:
    first = run(range(KILLED), lr=decay, sample=sample)
    second = run(
        range(40), lr=lambda step: decay(step + SAVED), sample=lambda step: sample(step + SAVED)
    )
    resume = Resume(second, SAVED, [(first, SAVED)], first, shift=SAVED)
    assert rate_continued(resume) is True and data_order(resume) is DataOrder.CONTINUED
    anew = Resume(run(range(40), lr=decay, sample=sample), SAVED, [(first, SAVED)], first, SAVED)
    assert rate_continued(anew) is False and data_order(anew) is DataOrder.RESTARTED


def test_an_epoch_alone_shows_a_restart_and_no_continuation() -> None:
    epochs: dict[str, Value] = {"epoch": lambda step: step // 40}
    restarted: dict[str, Value] = {"epoch": lambda step: (step - SAVED) // 40}
    assert data_order(resumed(epochs, restarted)) is DataOrder.RESTARTED
    assert data_order(resumed(epochs, epochs)) is DataOrder.UNKNOWN


def test_other_samples_than_either_are_unknown() -> None:
    shuffled: dict[str, Value] = {"sample": lambda step: sample(step) + 3.0}
    assert data_order(resumed({"sample": sample}, shuffled)) is DataOrder.UNKNOWN
    assert data_order(resumed({"sample": sample}, {})) is DataOrder.UNKNOWN
    assert data_order(resumed({}, {"sample": sample})) is DataOrder.UNKNOWN


def test_one_batch_for_all_steps_is_unknown() -> None:
    same: dict[str, Value] = {"sample": lambda step: 0.0}
    assert data_order(resumed(same, same)) is DataOrder.UNKNOWN


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ("", "/runs/a/step-100.pt"),
        ("/runs/a/ste", "/runs/a/step-100.pt"),
        ("step-100.pt", "/runs/a/step-100.pt"),
        ("other.pt", "other.pt"),
    ],
)
def test_the_checkpoint_is_the_reported_one_with_the_path_of_its_save(
    reported: str, expected: str
) -> None:
    resume = resumed({}, {})
    first = resume.earlier[0][0]
    first.checkpoints.by_step[SAVED] = Checkpoint(SAVED, path="/runs/a/step-100.pt")
    resume.attempt.lifecycle.resumed_path = reported
    assert resume.path == expected


def test_losses_before_a_resume_leave_out_steps_that_were_done_again() -> None:
    runs = [run(range(60)), run(range(40, 50)), run(range(45, 70))]
    for attempt, height in zip(runs, (0.0, 10.0, 20.0), strict=True):
        attempt.steps.history.rows["loss"] += height
    resume = Resume(runs[2], 45, [(runs[1], 45), (runs[0], 40)], runs[0])
    expected = [5.0 - step / 100 + 10.0 * (step >= 40) for step in range(35, 45)]
    assert resume.losses_before(10).tolist() == pytest.approx(expected)
