"""A hang where hosts run ahead: progress is the device's, and so is the place where a rank is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from stepwatch.collector.detect import hang
from stepwatch.collector.detect.context import DetectionContext
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.detect.hang import LIMITS, RankSituation, stall_of, stalled_seconds
from stepwatch.collector.state.job import LiveJob
from stepwatch.collector.state.tracker import Received
from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.records import DeviceState, Kind, Op, Phase, ProcessState, make_rows
from stepwatch.signals.wire import Rows
from tests.collector.gathered import group_rows
from tests.collector.made import (
    EPOCH,
    JOB,
    device_step_rows,
    read_before,
    segment,
    state_rows,
    step_rows,
)

AT, GROUP = 100.0, 7
RANKS = range(4)


def ns(ago: float) -> int:
    """A moment so long before the agents look."""
    return round((AT - ago) * NANOSECONDS)


def states(host_ago: float = 0.1, device_ago: float = 30.0) -> Rows:
    """Hosts that ran ahead to step 60; every device is in the all-reduce of step 57's backward."""
    rows = state_rows(RANKS, 4, AT, step=60, moved_ago=host_ago)
    rows["device_state"], rows["device_since_ns"] = DeviceState.IN_COLLECTIVE, ns(device_ago)
    rows["device_step"], rows["device_phase"] = 57, Phase.BACKWARD
    rows["device_op"], rows["device_group"] = Op.ALL_REDUCE, GROUP
    return rows


def stuck(rank: int = 2, **facts: float) -> Rows:
    """The device of one rank is in a kernel of step 57's forward."""
    rows = states(**facts)
    rows["device_state"][rank], rows["device_phase"][rank] = DeviceState.WORKING, Phase.FORWARD
    rows["device_op"][rank], rows["device_group"][rank] = 0, 0
    return rows


def context(
    rows: Rows, seconds: float = 0.2, more: Iterable[tuple[Kind, Rows]] = ()
) -> DetectionContext:
    """Forty steps of so many seconds on the device, 4 ms on the host, and then these states.

    The processes use no CPU.
    """
    job = LiveJob(JOB)
    host = step_rows(range(40), RANKS, seconds)
    host["duration_ns"] = 4_000_000
    for name in ("data", "forward", "backward", "optimizer", "other", "collective"):
        host[f"{name}_ns"] = 600_000
    tables = {
        Kind.RANK_STATE: read_before(rows),
        Kind.STEP: host,
        Kind.GROUP: group_rows(GROUP, RANKS),
        **dict(more),
    }
    job.apply(segment(1, tables), Received(EPOCH, AT))
    device = {Kind.DEVICE_STEP: device_step_rows(range(40), RANKS, seconds)}
    job.apply(segment(2, device), Received(EPOCH, AT))
    return DetectionContext(job, AT)


def findings_of(rows: Rows, seconds: float = 0.2) -> list[Finding]:
    return hang.find(context(rows, seconds))


@pytest.mark.parametrize("rank", RANKS)
def test_a_device_in_a_kernel_while_the_others_wait_is_the_culprit(rank: int) -> None:
    (finding,) = findings_of(stuck(rank))
    assert (finding.rank, finding.phase, finding.cause) == (rank, "forward", "device-stuck")
    assert (finding.began_step, finding.began_ago_seconds) == (57, 30.0)
    assert f"rank {rank} did not arrive in all_reduce of group 0,1,2,3" in finding.summary
    assert "its device is in forward of step 57, its host in forward of step 60" in finding.summary
    rows = {row.name: row for row in finding.evidence}
    assert rows[f"device of rank {rank} in forward of step 57 for"].value == 30.0
    assert rows[f"host of rank {rank}"].text == "in forward of step 60"
    peer = 1 if rank == 0 else 0
    assert rows[f"device of rank {peer} waits in all_reduce for"].value == 30.0


def test_hosts_that_go_on_do_not_hide_it() -> None:
    assert len(findings_of(stuck(host_ago=0.0))) == 1
    assert stalled_seconds(context(stuck(host_ago=0.0))) == pytest.approx(30.0)


def test_devices_that_go_on_are_no_hang_whatever_the_hosts_wait_for() -> None:
    assert findings_of(stuck(host_ago=60.0, device_ago=1.0)) == []
    assert stalled_seconds(context(states(host_ago=60.0, device_ago=1.0))) == pytest.approx(1.0)


def test_one_device_that_goes_on_is_no_hang() -> None:
    rows = stuck()
    rows["device_since_ns"][3] = ns(0.5)
    assert findings_of(rows) == []


def test_all_devices_in_the_collective_name_nobody() -> None:
    assert findings_of(states()) == []  # a link that flaps ends by itself
    (finding,) = findings_of(states(device_ago=LIMITS.legal_seconds + 1.0))
    assert (finding.rank, finding.cause) == (NO_RANK, "device-stuck")
    assert "the devices of all ranks are in all_reduce, which does not end" in finding.summary
    assert any(row.name == "device of rank 0 waits in all_reduce for" for row in finding.evidence)


def test_devices_in_different_collectives_have_no_cause_in_common() -> None:
    rows = states()
    rows["device_op"][3] = Op.ALL_GATHER
    (finding,) = findings_of(rows)
    assert (finding.rank, finding.cause) == (NO_RANK, "unknown")


def test_a_host_that_enqueues_nothing_more_is_the_culprit_not_its_idle_device() -> None:
    rows = states(host_ago=80.0, device_ago=80.0)
    rows["device_state"][1], rows["phase"][1], rows["step"][1] = DeviceState.IDLE, Phase.DATA, 57
    (finding,) = findings_of(rows)
    assert (finding.rank, finding.phase, finding.cause) == (1, "data", "busy")


def in_a_collective_of_hosts(ago: float = 30.0) -> Rows:
    """All hosts wait in backward's all-reduce of step 57; devices have done what they were given,
    but for that of rank 2, which is in forward."""
    rows = stuck(2, host_ago=ago, device_ago=ago)
    rows["step"], rows["phase"] = 57, Phase.BACKWARD
    rows["in_collective"], rows["collective_op"] = 1, Op.ALL_REDUCE
    rows["collective_group"] = GROUP
    rows["device_state"] = DeviceState.IDLE
    rows["device_state"][2] = DeviceState.WORKING
    return rows


def test_a_device_that_works_while_hosts_reduce_is_the_culprit() -> None:
    """Gloo copies from the device first: no device shows the collective, all hosts are in it."""
    (finding,) = findings_of(in_a_collective_of_hosts())
    assert (finding.rank, finding.phase, finding.cause) == (2, "forward", "device-stuck")


def test_a_kernel_in_the_phase_of_the_collective_is_found_where_most_devices_are_idle() -> None:
    rows = in_a_collective_of_hosts()
    rows["device_phase"] = Phase.BACKWARD
    (finding,) = findings_of(rows)
    assert (finding.rank, finding.phase, finding.cause) == (2, "backward", "device-stuck")


def test_devices_that_wait_for_one_whose_host_enqueues_nothing_are_not_blamed() -> None:
    """NCCL, not timed: one host is held up as it enqueues, so its device is idle; theirs wait."""
    rows = in_a_collective_of_hosts(LIMITS.legal_seconds)
    rows["device_phase"] = Phase.BACKWARD
    rows["device_state"] = DeviceState.WORKING
    rows["device_state"][1] = DeviceState.IDLE
    (finding,) = findings_of(rows)
    assert finding.rank == NO_RANK


def test_a_device_whose_collectives_are_not_timed_reads_as_working_while_it_waits() -> None:
    rows = in_a_collective_of_hosts(LIMITS.legal_seconds)
    rows["device_state"] = DeviceState.WORKING
    (finding,) = findings_of(rows)
    assert finding.rank == NO_RANK


def test_a_device_that_has_just_become_idle_made_progress() -> None:
    rows = states(host_ago=30.0)
    rows["device_state"][1], rows["device_since_ns"][1] = DeviceState.IDLE, ns(1.0)
    assert findings_of(rows) == []


@pytest.mark.parametrize(
    ("process", "cause"),
    [
        (ProcessState.STOPPED, "process-stopped"),
        (ProcessState.UNINTERRUPTIBLE, "device-stuck"),
        (ProcessState.SLEEPING, "device-stuck"),
    ],
)
def test_a_stopped_process_explains_its_device(process: ProcessState, cause: str) -> None:
    rows = stuck(2)
    rows["process_state"][2] = process
    (finding,) = findings_of(rows)
    assert (finding.rank, finding.cause) == (2, cause)


def test_with_an_old_heartbeat_the_hosts_lines_count() -> None:
    """The side thread that follows the device does not run: its line says nothing of now."""
    rows = stuck(2, host_ago=30.0)
    rows["heartbeat_ns"] = [ns(10.0), ns(10.0), ns(25.0), ns(10.0)]
    rows["in_collective"], rows["collective_op"] = 1, Op.ALL_REDUCE
    rows["in_collective"][2] = 0
    (finding,) = findings_of(rows)
    assert (finding.rank, finding.phase, finding.cause) == (2, "forward", "interpreter-blocked")
    rows["since_ns"] = ns(0.1)
    assert findings_of(rows) == [], "hosts go on, and nothing is known of the devices"


def test_a_step_of_the_device_may_take_its_time() -> None:
    """Hosts return after 4 ms; the devices' steps take 6 s, so 30 s are not eight of them."""
    assert findings_of(stuck(), seconds=6.0) == []
    assert len(findings_of(stuck(), seconds=0.2)) == 1


def test_a_checkpoint_of_a_host_that_waits_for_a_stuck_device_is_no_excuse() -> None:
    rows = stuck(2, host_ago=30.0)
    rows["phase"] = Phase.CHECKPOINT
    (finding,) = findings_of(rows)
    assert (finding.rank, finding.cause) == (2, "device-stuck")


def test_a_checkpoint_that_is_written_while_devices_wait_is_allowed() -> None:
    rows = states(host_ago=30.0)
    rows["phase"][0], rows["device_state"][0] = Phase.CHECKPOINT, DeviceState.IDLE
    assert findings_of(rows) == []


def test_the_flight_recorder_stands_beside_the_device() -> None:
    diagnosis = make_rows(Kind.DIAGNOSIS, 1, rank=2, worker_answered=1, time_ns=ns(5.0))
    flight = make_rows(
        Kind.FLIGHT,
        3,
        rank=2,
        group=b"0 default",
        op=b"all_reduce",
        collective_seq=[40, 41, 42],
        state=[b"completed", b"scheduled", b"scheduled"],
    )
    more = [(Kind.DIAGNOSIS, diagnosis), (Kind.FLIGHT, flight)]
    (finding,) = hang.find(context(stuck(2), more=more))
    (row,) = [row for row in finding.evidence if row.name == "flight recorder of rank 2"]
    assert row.text == "all_reduce #41 scheduled"


def test_what_has_not_completed_is_shown_of_each_group() -> None:
    diagnosis = make_rows(Kind.DIAGNOSIS, 1, rank=2, worker_answered=1, time_ns=ns(5.0))
    flight = make_rows(
        Kind.FLIGHT,
        4,
        rank=2,
        op=[b"all_gather", b"all_gather", b"collective", b"collective"],
        group=[b"0 default_pg", b"0 default_pg", b"0 nccl", b"0 nccl"],
        collective_seq=[1, 2, 54, 57],
        state=[b"completed", b"scheduled", b"scheduled", b"scheduled"],
    )
    more = [(Kind.DIAGNOSIS, diagnosis), (Kind.FLIGHT, flight)]
    (finding,) = hang.find(context(stuck(2), more=more))
    rows = [row.text for row in finding.evidence if row.name == "flight recorder of rank 2"]
    assert rows == ["all_gather #2 scheduled", "collective #54 scheduled"]


HOST = RankSituation(
    0, 57, Phase.BACKWARD, 0, False, True, Op.ALL_REDUCE, 80.0, 0.2, ProcessState.RUNNING
)._replace(work=Work.CPU)
EVALUATES = HOST._replace(phase=Phase.OTHER, in_collective=False)


def busy(host: RankSituation, **changes: Any) -> RankSituation:
    """A rank whose device works where its host is, but for `changes`."""
    place = host._replace(in_collective=False, waiting=False, host=host)
    return place._replace(**changes)


def culprits(first: RankSituation, peer: RankSituation) -> list[int]:
    """Ranks named where rank 0 and three others stand like this."""
    ranks = [first, *(peer._replace(rank=rank) for rank in range(1, 4))]
    return [finding.rank for finding in hang.detect(stall_of(ranks, 0.5, 0.5, LIMITS))]


@pytest.mark.parametrize("changes", [{}, {"in_collective": False, "waiting": True}])
def test_hosts_that_wait_count_where_devices_do_not_show_the_collective(
    changes: dict[str, Any],
) -> None:
    peer = busy(HOST._replace(**changes))
    assert culprits(EVALUATES, peer) == []
    assert culprits(EVALUATES._replace(work=Work.NONE), peer) == [0]


def test_a_device_that_works_holds_up_those_that_show_the_collective_wherever_its_host_waits() -> (
    None
):
    shown = busy(HOST, in_collective=True)
    assert culprits(busy(HOST, phase=Phase.FORWARD), shown) == [0]


def test_a_rank_that_evaluates_on_its_device_runs() -> None:
    peer = busy(HOST, in_collective=True)
    for device in (busy(EVALUATES), busy(EVALUATES, step=58)):
        assert culprits(device, peer) == []
        long_stalled = [
            situation._replace(moved_age=LIMITS.held_seconds) for situation in (device, peer)
        ]
        assert culprits(*long_stalled) == [0]


def test_devices_that_all_work_may_wait_in_a_collective_that_none_shows() -> None:
    rank = busy(EVALUATES, moved_age=LIMITS.held_seconds - 1)
    assert culprits(rank, rank) == []
    long_stalled = rank._replace(moved_age=LIMITS.held_seconds)
    assert culprits(long_stalled, long_stalled) == [NO_RANK]


@pytest.mark.parametrize(
    "stuck_device",
    [
        busy(EVALUATES, step=56),
        busy(EVALUATES, phase=Phase.BACKWARD),
        busy(EVALUATES, work=Work.NONE),
        busy(EVALUATES, work=None),
        busy(EVALUATES._replace(phase=Phase.FORWARD)),
    ],
    ids=["finished step", "earlier phase", "host waits", "cpu unknown", "queue may be full"],
)
def test_a_device_that_its_host_may_wait_for_is_stuck(stuck_device: RankSituation) -> None:
    assert culprits(stuck_device, busy(HOST, in_collective=True)) == [0]
