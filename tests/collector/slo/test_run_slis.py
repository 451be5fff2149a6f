"""SLIs over a run: each has a definition, a value or a reason, and the same one from the log."""

from __future__ import annotations

import json
import math
import random
import sys
import tempfile
import types
from pathlib import Path

import numpy as np
import pytest

from stepwatch.collector.runtime.evaluation.verdicts import job_facts
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.over_run import registry, slis
from stepwatch.collector.slo.over_run.registry import discover_run_slis, readings
from stepwatch.collector.slo.over_run.sli import Reading
from stepwatch.collector.slo.over_run.slis.pace.throughput import FLOPS, PEAK
from stepwatch.collector.store import Store
from stepwatch.signals.records import CheckpointEvent, Kind, LifecycleEvent, StepFlag
from stepwatch.signals.wire import Segment
from tests.collector.made import (
    EPOCH,
    JOB,
    SHARES,
    HandClock,
    body,
    checkpoint_rows,
    lifecycle_rows,
    run_segments,
    segment,
    state_rows,
    step_rows,
    with_facts,
)

WORLD = 4
RANKS = range(WORLD)


def attempt(
    number: int,
    first: int,
    last: int,
    began: float,
    sequence: int,
    *,
    resumes: bool = False,
    allocation_held: bool = False,
) -> list[Segment]:
    """An attempt that makes steps `first` to `last` of 0.2 s, after a second of start-up; its
    devices were `held` since a minute before the job began."""
    starts = [lifecycle_rows(LifecycleEvent.START, RANKS, WORLD, began)]
    if allocation_held:
        starts.append(lifecycle_rows(LifecycleEvent.ALLOCATION, [0], EPOCH - 60, began))
    if resumes:
        starts.append(lifecycle_rows(LifecycleEvent.RESUME, RANKS, first, began))
    segments = []
    for step in range(first, last + 1):
        end_s = began + 1.0 + (step - first + 1) * 0.2
        rows = step_rows([step], RANKS)
        rows["time_ns"] = round(end_s * 1e9)
        tables = {Kind.STEP: rows, Kind.RANK_STATE: state_rows(RANKS, WORLD, end_s, step)}
        if step == first:
            tables[Kind.LIFECYCLE] = np.concatenate(starts)
        segments.append(segment(sequence + step - first, tables, attempt=number))
    return segments


def ends(number: int, event: LifecycleEvent, time_s: float, sequence: int) -> Segment:
    return segment(
        sequence, {Kind.LIFECYCLE: lifecycle_rows(event, RANKS, time_s=time_s)}, attempt=number
    )


def read_slis(segments: list[Segment], seconds: float, at_once: int = 1000) -> dict[str, Reading]:
    """The readings of a job at run time `seconds`, its segments received so many at once."""
    with tempfile.TemporaryDirectory() as folder:
        store = Store.sqlite(Path(folder) / "store.db")
        service = Service(store, HandClock(seconds))
        for first in range(0, len(segments), at_once):
            service.receive(body(segments[first : first + at_once]))
        service.evaluate()
        job_state = service.job(JOB)
        assert job_state is not None
        facts = job_facts(*job_state, service.now())
        store.close()
        return readings(facts)


def killed(
    *, allocation_held: bool, ended: LifecycleEvent = LifecycleEvent.FAILURE
) -> list[Segment]:
    """Killed after step 30, with the newest good save at 20; it comes back 4.5 s later on the same
    devices, or on others if they were not `held`, and finishes."""
    return [
        *attempt(0, 0, 30, 0.0, 1, allocation_held=allocation_held),
        segment(
            90,
            {Kind.CHECKPOINT: checkpoint_rows(CheckpointEvent.VERIFIED, RANKS, 20)},
            attempt=0,
        ),
        ends(0, ended, 7.5, 91),
        *attempt(1, 20, 60, 12.0, 100, resumes=True, allocation_held=allocation_held),
        ends(1, LifecycleEvent.FINISH, 21.4, 190),
    ]


KILLED = killed(allocation_held=True)


def test_every_sli_of_the_field_is_there_with_all_of_its_definition() -> None:
    slis = discover_run_slis()
    assert {f"M{number}" for number in range(1, 16)} <= {sli.mission for sli in slis.values()}
    for sli in slis.values():
        assert all(value for name, value in sli._asdict().items() if name != "mission"), sli.name


def test_nothing_is_left_out_and_what_is_not_known_says_why() -> None:
    sli_readings = read_slis(run_segments(60), 12.0)
    assert sli_readings.keys() == discover_run_slis().keys()
    for name, reading in sli_readings.items():
        assert math.isnan(reading.value) == bool(reading.unknown), name
        assert not (reading.unknown and reading.value == 0.0), name
    for name in ("mfu", "tensor-activity", "resume-success"):
        assert sli_readings[name].unknown, name
    assert sli_readings["job-success"].unknown == "it has not ended"


def test_a_healthy_run() -> None:
    sli_readings = read_slis(run_segments(60), 12.0)
    assert sli_readings["throughput"].value == pytest.approx(400 / 0.2, rel=0.01)
    assert sli_readings["step-time-p50"].value == pytest.approx(0.2)
    assert sli_readings["step-time-spread"].value == pytest.approx(1.0)
    assert sli_readings["goodput"].value == pytest.approx(1.0, abs=0.02)
    assert sli_readings["data-wait"].value == pytest.approx(SHARES["data"], abs=0.005)
    assert sli_readings["lost-steps"].value == sli_readings["preemptions"].value == 0.0
    assert sli_readings["telemetry-completeness"].value == 1.0
    assert sli_readings["interruptions"].unknown.startswith("too early: 0 in ")


def utilisation(*described: tuple[str, str]) -> Reading:
    """MFU of 60 steps of 0.2 s of 400 tokens on four ranks, with these facts."""
    return read_slis(with_facts(run_segments(60), *described), 12.0)["mfu"]


def test_mfu_is_known_where_somebody_says_what_a_token_takes_and_a_device_can_do() -> None:
    # 2,000 tokens/s of 1,000 FLOPs on four devices of 10^6 FLOP/s: half of what they can do.
    reading = utilisation((FLOPS, "1000"), (PEAK, "1e6"))
    assert reading.value == pytest.approx(0.5, rel=0.01)
    assert "a token's FLOP" in utilisation((PEAK, "1e6")).unknown
    for peak in ("", "0", "-1", "nan", "inf", "fast"):
        assert "its device's peak" in utilisation((FLOPS, "1000"), (PEAK, peak)).unknown
    assert "cannot be" in utilisation((FLOPS, "1000"), (PEAK, "1e5")).unknown


def test_a_step_that_was_not_finished_is_not_lost() -> None:
    cut = list(KILLED)
    last = cut[30].tables[Kind.STEP].copy()
    last["flags"] = int(StepFlag.UNFINISHED)
    cut[30] = cut[30]._replace(tables={**cut[30].tables, Kind.STEP: last})
    assert read_slis(cut, 21.4)["lost-steps"].value == 10


def test_a_kill_at_step_30_with_the_newest_good_save_at_20() -> None:
    """Figures by hand: steps 20-30 are done twice; 7.2 s + 9.2 s ran, 4.8 s nothing did."""
    sli_readings = read_slis(KILLED, 21.4)
    assert sli_readings["lost-steps"].value == 11
    assert sli_readings["recovery-time"].value == pytest.approx(13.2 - 7.2)
    assert (sli_readings["attempt-success"].value, sli_readings["job-success"].value) == (0.5, 1.0)
    assert (sli_readings["requeue-rate"].value, sli_readings["resume-success"].value) == (0.5, 1.0)
    assert sli_readings["interruptions"].unknown.startswith("too early: 1 in ")
    allocated = 20.4 + 1.0  # of each rank: from the first start to the last step, and its end
    assert sli_readings["goodput"].value == pytest.approx(
        (20 + 41) * 0.2 / (7.2 + 4.8 + 9.2), abs=0.01
    )
    assert sli_readings["waste"].detail.startswith("idle-allocated")
    assert "redone-after-restart" in sli_readings["waste"].detail
    assert sli_readings["time-to-complete"].value == pytest.approx(allocated, abs=0.3)
    assert sli_readings["checkpoint-success"].value == 1.0
    assert sli_readings["verified-checkpoint-age"].value == pytest.approx((60 - 20) * 0.2, abs=0.01)
    earlier_readings = read_slis(KILLED[:31], 7.2)
    assert earlier_readings["goodput"].value > sli_readings["goodput"].value, (
        "it turns bad afterwards"
    )
    assert earlier_readings["lost-steps"].value == 0


def test_what_passes_between_two_allocations_was_not_the_jobs() -> None:
    sli_readings = read_slis(killed(allocation_held=False), 21.4)
    assert sli_readings["goodput"].value == pytest.approx((20 + 41) * 0.2 / (7.2 + 9.2), abs=0.01)
    assert "idle-allocated" not in sli_readings["waste"].detail
    finished_readings = read_slis(killed(allocation_held=True, ended=LifecycleEvent.FINISH), 21.4)
    assert finished_readings["goodput"].value == sli_readings["goodput"].value, (
        "the first run had finished"
    )


@pytest.mark.parametrize("seed", range(3))
def test_live_and_again_from_the_log_in_other_parts_it_is_the_same(seed: int) -> None:
    dice = random.Random(seed)
    once = read_slis(KILLED, 21.4)
    repeated = read_slis(KILLED, 21.4, dice.choice([1, 2, 7, 40]))
    assert json.dumps(once) == json.dumps(repeated)


def test_a_file_without_slis_or_with_a_name_that_is_taken_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"{slis.__name__}.pace.throughput"
    empty = types.ModuleType(name)
    monkeypatch.setitem(sys.modules, name, empty)
    with pytest.raises(LookupError, match="throughput must name SLIS"):
        registry.discover_run_slis.__wrapped__()
