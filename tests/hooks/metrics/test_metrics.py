"""A trainer's own numbers reach the ring under their names, and bad ones reach nobody."""

from __future__ import annotations

import logging
import math
import threading
from pathlib import Path
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.metrics.metrics import ANNOUNCED_EVERY, MOST_CALLS
from stepwatch.hooks.metrics.names import BAD_NAME, SECRET, TOO_MANY
from stepwatch.hooks.numerics import deferred_scalars
from stepwatch.hooks.numerics.late_records import HELD_STEPS
from stepwatch.signals.records import METRICS_PER_ROW, MOST_METRICS, Better, Kind
from tests.hooks.conftest import rows_in

Recorded = dict[tuple[int, str], float]


def names_in(root: Path) -> dict[int, Any]:
    """The newest METRIC_NAME row by number in the one ring below `root`."""
    return {int(row["number"]): row for row in rows_in(root, Kind.METRIC_NAME)}


def recorded(root: Path, *, evaluated: bool = False) -> Recorded:
    """Values by (step, name), an evaluation's name in front."""
    names = names_in(root)
    values: Recorded = {}
    for row in rows_in(root, Kind.METRIC):
        for place in range(METRICS_PER_ROW) if bool(row["evaluated"]) is evaluated else ():
            if number := int(row[f"name_{place}"]):
                words = names[number]["evaluation"].decode(), names[number]["text"].decode()
                key = int(row["step"]), ":".join(filter(None, words))
                assert key not in values, "a name has one value a step"
                values[key] = float(row[f"value_{place}"])
    return values


def test_numbers_have_their_names_and_steps(watch: Watch, rings: Path) -> None:
    for step in range(3):
        with watch.step() as context:
            context.record(loss=2.0, lr=1e-4 * step, epoch=step)
            watch.record(accuracy=0.5)
    assert recorded(rings) == {
        **{(step, "lr"): 1e-4 * step for step in range(3)},
        **{(step, "epoch"): step for step in range(3)},
        **{(step, "accuracy"): 0.5 for step in range(3)},
    }
    assert rows_in(rings, Kind.STEP)["loss"].tolist() == [2.0] * 3
    assert watch.guard.errors == 0


def test_the_two_calls_of_a_step_take_metrics_too(watch: Watch, rings: Path) -> None:
    watch.begin_step()
    watch.end_step(tokens=5, loss=1.0, lr=0.25)
    assert recorded(rings) == {(0, "lr"): 0.25}
    assert rows_in(rings, Kind.STEP)["loss"].tolist() == [1.0]


def test_a_mapping_has_one_name_for_each_part(watch: Watch, rings: Path) -> None:
    with watch.step() as step:
        step.record(loss={"image": 0.5, "text": 0.75}, lr={"encoder": 1e-5}, nothing=None)
    assert recorded(rings) == {
        (0, "loss/image"): 0.5,
        (0, "loss/text"): 0.75,
        (0, "lr/encoder"): 1e-5,
    }
    assert math.isnan(rows_in(rings, Kind.STEP)["loss"][0])


def test_a_framework_logs_for_the_step_that_ended(watch: Watch, rings: Path) -> None:
    for step in range(2):
        with watch.step() as context:
            context.record(loss=1.0)
        watch.instruments.metrics.record_ended({"loss": 7.0, "epoch": step})
    assert recorded(rings) == {(0, "epoch"): 0.0, (1, "epoch"): 1.0}
    assert rows_in(rings, Kind.STEP)["loss"].tolist() == [1.0, 1.0]


def test_a_names_last_value_in_a_step_counts(watch: Watch, rings: Path) -> None:
    with watch.step() as step:
        for value in range(3 * MOST_CALLS):
            step.record(accuracy=float(value), **{"only now": value} if value == 1 else {})
    assert recorded(rings) == {(0, "accuracy"): 3.0 * MOST_CALLS - 1, (0, "only now"): 1.0}


def test_many_metrics_take_several_records(watch: Watch, rings: Path) -> None:
    values = {f"metric {number}": float(number) for number in range(MOST_METRICS)}
    with watch.step() as step:
        step.record(**values)
    assert recorded(rings) == {(0, name): value for name, value in values.items()}
    assert len(rows_in(rings, Kind.METRIC)) == MOST_METRICS / METRICS_PER_ROW


def test_values_that_are_not_finite_stay_as_they_are(watch: Watch, rings: Path) -> None:
    with watch.step() as step:
        step.record(a=math.nan, b=math.inf, c=-math.inf, d=1e300)
    values = recorded(rings)
    assert math.isnan(values.pop((0, "a")))
    assert values == {(0, "b"): math.inf, (0, "c"): -math.inf, (0, "d"): 1e300}


def test_ten_thousand_names_leave_sixty_four_and_one_warning(
    watch: Watch, rings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(10_000):
        watch.record(**{f"name {number}": 1.0})
    with watch.step():
        pass
    assert len(recorded(rings)) == len(names_in(rings)) == MOST_METRICS
    assert [record.getMessage() for record in caplog.records] == [f"stepwatch: {TOO_MANY}"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", BAD_NAME),
        ("x" * 49, BAD_NAME),
        (" lr", BAD_NAME),
        ("a\nb", BAD_NAME),
        ("\x1b[31mred", BAD_NAME),
        ("over\u202eride", BAD_NAME),
        ("half \ud800", BAD_NAME),
        ("api_key", SECRET),
        ("s3/password", SECRET),
        ("hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh", SECRET),
    ],
)
def test_a_refused_name_is_counted_and_never_written(
    watch: Watch, rings: Path, caplog: pytest.LogCaptureFixture, name: str, message: str
) -> None:
    with watch.step() as step:
        step.record(**{name: 1.0, "lr": 0.5})
        step.record(**{name: 1.0})
    watch.record_evaluation({name: 1.0})
    watch.declare_metric(name)
    assert recorded(rings) == {(0, "lr"): 0.5}
    assert [record.getMessage() for record in caplog.records] == [f"stepwatch: {message}"]
    assert watch.guard.errors == 4


@pytest.mark.parametrize("value", ["high", object(), [1.0], 1j, {"deep": {"er": 1.0}}])
def test_what_is_no_number_is_left_out_alone(watch: Watch, rings: Path, value: Any) -> None:
    with watch.step() as step:
        step.record(odd=value, lr=0.5)
    assert recorded(rings) == {(0, "lr"): 0.5}
    assert watch.guard.errors == 1


def test_a_whole_number_beyond_any_float_is_left_out(watch: Watch, rings: Path) -> None:
    for _ in range(2):
        with watch.step() as step:
            step.record(big=1)
            step.record(big=10**400)
        with watch.step() as step:
            step.record(big=10**400)
    assert set(recorded(rings)) <= {(0, "big"), (2, "big")}
    assert len(rows_in(rings, Kind.STEP)) == 4


def test_evaluations_belong_to_the_newest_step(watch: Watch, rings: Path) -> None:
    watch.record_evaluation({"loss": 9.0})
    for step in range(2):
        with watch.step() as context:
            context.record(lr=0.5)
        watch.record_evaluation({"loss": 2.0 - step, "by set": {"news": 0.5}})
    watch.record_evaluation({"loss": 3.0}, name="held-out")
    assert recorded(rings) == {(0, "lr"): 0.5, (1, "lr"): 0.5}
    rows = rows_in(rings, Kind.METRIC)
    assert rows["step"][rows["evaluated"] > 0].tolist() == [0, 0, 1, 1]
    numbers = {(bytes(row["evaluation"]), bytes(row["text"])) for row in names_in(rings).values()}
    assert numbers == {
        *((b"validation", b"loss"), (b"validation", b"by set/news")),
        *((b"held-out", b"loss"), (b"", b"lr")),
    }


def test_an_evaluation_on_another_thread_waits_for_the_training_thread(
    watch: Watch, rings: Path
) -> None:
    with watch.step():
        pass
    thread = threading.Thread(target=watch.record_evaluation, args=({"loss": 2.0}, "behind"))
    thread.start()
    thread.join()
    assert len(rows_in(rings, Kind.METRIC)) == 0
    with watch.step():
        pass
    assert recorded(rings, evaluated=True) == {(0, "behind:loss"): 2.0}


@pytest.mark.parametrize("values", [None, 3, ["loss"], {3: 1.0}])
def test_an_evaluation_of_nonsense_is_counted(watch: Watch, rings: Path, values: Any) -> None:
    watch.record_evaluation(values)
    watch.record_evaluation({"loss": 1.0}, name="a" * 25)
    assert len(rows_in(rings, Kind.METRIC)) == 0
    assert watch.guard.errors == 2


def test_a_declaration_before_or_after_the_first_value(watch: Watch, rings: Path) -> None:
    watch.declare_metric("lr", unit="1", better="lower")
    with watch.step() as step:
        step.record(lr=0.5, reward=1.0)
    watch.declare_metric("reward", better="higher")
    watch.declare_metric("reward", better="more")
    units = {
        bytes(row["text"]): (bytes(row["unit"]), int(row["better"]))
        for row in names_in(rings).values()
    }
    assert units[b"lr"] == (b"1", Better.LOWER)
    assert units[b"reward"] == (b"", Better.UNKNOWN), "the newest declaration counts"
    assert watch.guard.errors == 1


def test_names_are_written_again_for_an_agent_that_comes_late(watch: Watch, rings: Path) -> None:
    for step in (0, 1, ANNOUNCED_EVERY - 1, ANNOUNCED_EVERY, ANNOUNCED_EVERY + 1):
        with watch.step(number=step) as context:
            context.record(lr=0.5)
    assert rows_in(rings, Kind.METRIC_NAME)["step"].tolist() == [0, ANNOUNCED_EVERY + 1]


class Late(deferred_scalars.DeviceScalar):
    """A number on a device that delivers it when told to, or never."""

    def __init__(self, value: float) -> None:
        self.arrived = False
        self._host: Any = value

    def ready(self) -> bool:
        return self.arrived


def test_numbers_of_a_device_are_written_when_they_arrive(
    watch: Watch, rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stepwatch.hooks.metrics.metrics.scalar", lambda value: value)
    late, never = Late(0.25), Late(7.0)
    with watch.step() as step:
        step.record(late=late, never=never, host=1.0)
    with watch.step() as step:
        step.record(late=2.0, never=2.0, host=2.0)
    late.arrived = True
    for _ in range(HELD_STEPS):
        with watch.step():
            pass
    values = recorded(rings)
    assert (0, "never") not in values, "a number that never arrives is left out, not NaN"
    second = dict.fromkeys(((1, name) for name in ("late", "never", "host")), 2.0)
    assert values == {(0, "late"): 0.25, (0, "host"): 1.0, **second}
    assert rows_in(rings, Kind.STEP)["step"].tolist() == list(range(HELD_STEPS + 2))


class Dying:
    """A tensor on a device that has failed."""

    placements = None

    def numel(self) -> int:
        raise RuntimeError("device-side assert triggered")


def test_a_tensor_on_a_dying_device_takes_no_other_number_with_it(
    watch: Watch, rings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with watch.step() as step:
        step.record(loss=Dying(), accuracy=Dying(), lr=0.5)
    assert recorded(rings) == {(0, "lr"): 0.5}
    assert watch.guard.errors == 2


def test_tensors_are_read_when_they_are_recorded(watch: Watch, rings: Path) -> None:
    torch = pytest.importorskip("torch")
    value = torch.tensor(1.5, requires_grad=True)
    with watch.step() as step:
        step.record(norm=value, wide=torch.tensor(1e300, dtype=torch.float64), pair=torch.ones(2))
        value.data.add_(1)
    assert recorded(rings) == {(0, "norm"): 1.5, (0, "wide"): 1e300}
    assert watch.guard.errors == 1


def test_a_watch_that_records_nothing_takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWATCH_DISABLE", "1")
    off = Watch.from_env(job="job")
    off.declare_metric("lr", "1", "lower")
    with off.step() as step:
        step.record(lr=0.5, loss={"a": 1})
    off.record_evaluation({"loss": 1.0})
    off.close()
    off.record(lr=1.0)
    off.record_evaluation({"loss": 1.0})
