"""A wait that may be legal is a pause: a finding after seconds or minutes, with what it costs."""

from __future__ import annotations

import math

import pytest

from stepwatch.collector.detect import hang, pause
from stepwatch.collector.detect.finding import NO_RANK, Finding
from stepwatch.collector.detect.hang import OtherRanks, RankDiagnostics, RankSituation, stall_of
from stepwatch.collector.detect.hang.situation import Unseen
from stepwatch.collector.state.trackers.diagnoses import Diagnosis
from stepwatch.collector.state.trackers.rank_work import Work
from stepwatch.signals.names import FindingKind
from stepwatch.signals.records import GilState, Op, Phase, ProcessState

LIMITS = pause.LIMITS
WAITER = RankSituation(
    0, 50, Phase.BACKWARD, 0, False, True, Op.ALL_REDUCE, 180.0, 0.2, ProcessState.SLEEPING
)
RUNS = WAITER._replace(
    rank=2, in_collective=False, phase=Phase.OTHER, work=Work.CPU, cpu_ratio=0.98
)


def job(outside: RankSituation, age: float = 180.0) -> list[RankSituation]:
    """Four ranks of which all but `outside` wait in a collective, for so many seconds."""
    ranks = [WAITER._replace(rank=rank) for rank in range(4)]
    ranks[outside.rank] = outside
    return [situation._replace(moved_age=age) for situation in ranks]


def detect(ranks: list[RankSituation], answers: RankDiagnostics | None = None) -> list[Finding]:
    stall = stall_of(ranks, 0.5, 0.5, hang.LIMITS, answers or RankDiagnostics())
    return pause.detect(stall, LIMITS)


def test_it_names_the_rank_that_runs_and_what_the_wait_costs() -> None:
    diagnosis = Diagnosis(
        0, True, True, GilState.FREE, 1, 1, "evaluate", "train.py:34", "evaluate < main", ""
    )
    (finding,) = detect(job(RUNS), RankDiagnostics({2: diagnosis}))
    assert (finding.kind, finding.rank, finding.cause) == (FindingKind.PAUSE, 2, "busy")
    assert finding.lost_ratio == 0.75
    assert finding.began_ago_seconds == 180.0
    assert "rank 2 is running outside any collective" in finding.summary
    assert "train.py:34 in evaluate" in finding.summary
    assert "3 of 4 ranks wait in all_reduce: 9.0 device-min so far" in finding.summary
    rows = {row.name: row for row in finding.evidence}
    assert rows["CPU time of rank 2"].value == 0.98
    assert "beyond 480 s" in rows["time without progress of any rank"].against


def test_a_line_stands_once_in_the_evidence_beside_its_callers() -> None:
    diagnosis = Diagnosis(0, True, True, GilState.FREE, 1, 1, "evaluate", "train.py:34", "", "")
    for stack, against in (
        ("evaluate train.py:34 < main train.py:9", "called from main train.py:9"),
        ("evaluate train.py:34", "the outermost frame"),
        (
            "wait threading.py:3 < evaluate train.py:34",
            "wait threading.py:3 < evaluate train.py:34",
        ),
    ):
        (finding,) = detect(job(RUNS), RankDiagnostics({2: diagnosis._replace(stack=stack)}))
        (row,) = [row for row in finding.evidence if row.name == "Python line of rank 2"]
        assert (row.text, row.against) == ("train.py:34 in evaluate", against)


def test_ranks_that_wait_for_some_that_nobody_observes_do_not_pause() -> None:
    ranks = [WAITER._replace(rank=rank, moved_age=180.0) for rank in range(4)]
    unseen = OtherRanks((Unseen(4, "node-1", 60.0), Unseen(5, "node-1", 60.0)))
    stall = stall_of(ranks, 0.5, 0.5, hang.LIMITS, RankDiagnostics(), other_ranks=unseen)
    assert stall is not None and not stall.outside
    assert pause.detect(stall, LIMITS) == []


def test_where_the_cpu_time_is_not_known_it_says_so() -> None:
    (finding,) = detect(job(RUNS._replace(work=None, cpu_ratio=math.nan)))
    assert finding.cause == "unknown"
    assert "whether running is unknown" in finding.summary
    (row,) = [row for row in finding.evidence if row.name == "CPU time of rank 2"]
    assert (row.text, math.isnan(row.value)) == ("unknown", True)


@pytest.mark.parametrize("work", [Work.CPU, Work.BYTES, None])
def test_where_no_rank_waits_it_takes_longer_whatever_the_ranks_do(work: Work | None) -> None:
    def standing(age: float) -> list[RankSituation]:
        return [RUNS._replace(rank=rank, work=work, moved_age=age) for rank in range(3)]

    assert detect(standing(LIMITS.least_seconds - 1)) == []
    (finding,) = detect(standing(LIMITS.least_seconds))
    assert finding.rank == NO_RANK
    assert math.isnan(finding.lost_ratio), "what all ranks do may well be worth its time"
    assert "no rank waits for another" in finding.summary


def test_a_single_process_may_do_something_else_for_minutes() -> None:
    assert detect([RUNS._replace(rank=0, moved_age=LIMITS.least_seconds - 1)]) == []
    (finding,) = detect([RUNS._replace(rank=0, moved_age=LIMITS.least_seconds)])
    assert (finding.rank, finding.kind) == (NO_RANK, FindingKind.PAUSE)


def test_a_short_pause_is_nothing() -> None:
    assert detect(job(RUNS, hang.LIMITS.legal_seconds - 1)) == []
    assert len(detect(job(RUNS, hang.LIMITS.legal_seconds))) == 1


@pytest.mark.parametrize(
    ("work", "cause", "words"),
    [
        (Work.NONE, "not-arrived", "without using a CPU"),
        (Work.BYTES, "busy", "bytes move"),
        (Work.CHILDREN, "busy", "its children are at work"),
    ],
)
def test_a_rank_that_does_not_compute_is_said_within_seconds(
    work: Work, cause: str, words: str
) -> None:
    rank = RUNS._replace(work=work)
    assert detect(job(rank, LIMITS.quiet_seconds - 1)) == []
    (finding,) = detect(job(rank, LIMITS.quiet_seconds))
    assert (finding.rank, finding.cause) == (2, cause)
    assert words in finding.summary


def test_an_interpreter_that_is_held_is_said_within_seconds_though_it_uses_a_cpu() -> None:
    regex = RUNS._replace(heartbeat_age=LIMITS.quiet_seconds)
    (finding,) = detect(job(regex, LIMITS.quiet_seconds))
    assert (finding.rank, finding.cause) == (2, "interpreter-blocked")
    assert "in one call that holds the interpreter's lock" in finding.summary


def test_ranks_that_all_wait_for_what_no_line_shows_are_said_within_seconds() -> None:
    def standing(work: Work | None, ranks: int = 3) -> list[RankSituation]:
        situation = RUNS._replace(work=work, moved_age=LIMITS.quiet_seconds)
        return [situation._replace(rank=rank) for rank in range(ranks)]

    (finding,) = detect(standing(Work.NONE))
    assert (finding.rank, finding.cause) == (NO_RANK, "unknown")
    assert detect(standing(Work.CPU)) == detect(standing(None)) == []
    assert detect(standing(Work.NONE, ranks=1)) == [], "a notebook may stand for a while"


@pytest.mark.parametrize(
    "outside",
    [
        RUNS._replace(work=Work.NONE, heartbeat_age=20.0),
        RUNS._replace(process=ProcessState.STOPPED),
        RUNS._replace(process=ProcessState.GONE, work=None),
        WAITER._replace(rank=2, process=ProcessState.STOPPED),
    ],
)
def test_what_is_a_hang_at_once_is_no_pause(outside: RankSituation) -> None:
    assert detect(job(outside)) == []
    assert len(hang.detect(stall_of(job(outside), 0.5, 0.5, hang.LIMITS))) == 1


def test_ranks_that_are_all_inside_are_said_within_seconds() -> None:
    assert detect(job(WAITER._replace(rank=2), LIMITS.quiet_seconds - 1.0)) == []
    (finding,) = detect(job(WAITER._replace(rank=2), LIMITS.quiet_seconds))
    assert (finding.rank, finding.cause, finding.lost_ratio) == (NO_RANK, "unknown", 1.0)
    assert "all ranks are inside collectives or exchanges" in finding.summary
    assert "no bytes are seen to move; 4 of 4 ranks wait in all_reduce" in finding.summary
    moves = [
        item._replace(work=Work.BYTES, carried_age=0.5)
        for item in job(WAITER._replace(rank=2), 20.0)
    ]
    (finding,) = detect(moves, RankDiagnostics(groups={0: "0-3"}))
    assert "all ranks are inside all_reduce of group 0-3, and bytes move" in finding.summary


@pytest.mark.parametrize("phase", [Phase.EVAL, Phase.CHECKPOINT])
def test_what_the_hooks_name_is_no_pause(phase: Phase) -> None:
    assert detect(job(RUNS._replace(phase=phase), 899.0)) == []
    stall = stall_of(job(RUNS._replace(phase=phase), 899.0), 0.5, 0.5, hang.LIMITS)
    assert hang.detect(stall) == []


def test_with_steps_of_a_minute_it_takes_eight_of_them() -> None:
    ranks = job(RUNS, 200.0)
    assert stall_of(ranks, 60.0, 60.0, hang.LIMITS) is None
    assert len(pause.detect(stall_of(ranks, 20.0, 60.0, hang.LIMITS), LIMITS)) == 1
