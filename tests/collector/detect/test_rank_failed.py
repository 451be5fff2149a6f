"""The first rank that failed is named; symptoms, and attempts that were asked to stop, are not."""

from __future__ import annotations

import math

import pytest

from stepwatch.collector.detect import rank_failed
from stepwatch.collector.detect.finding import NO_RANK, Confidence, Finding
from stepwatch.collector.detect.rank_failed import RankEnd, SilentNode
from stepwatch.collector.state.exit_codes import UNKNOWN_EXIT
from stepwatch.signals.names import Cause

NEVER = math.nan
ASKED, KILLED, ABORTED = 143, 137, 134


def rank_end(
    rank: int, exit_s: float, code: int, failure: str = "", told_at: float = NEVER, *lines: str
) -> RankEnd:
    return RankEnd(rank, 7, "forward", exit_s, code, told_at, failure, False, lines)


def named(*ends: RankEnd, preempted: bool = False, world: int = 3) -> list[tuple[int, str]]:
    findings = rank_failed.detect(list(ends), world, preempted, 20.0, rank_failed.LIMITS)
    return [(finding.rank, finding.cause.value) for finding in findings]


LOST = "RuntimeError: [gloo/transport/tcp/pair.cc:537] Connection closed by peer"


def test_the_first_death_and_not_those_that_torchrun_ended() -> None:
    ends = [rank_end(0, 10.1, ASKED), rank_end(1, 10.0, KILLED), rank_end(2, 10.1, ASKED)]
    assert named(*ends) == [(1, "process-gone")]


def test_a_lost_connection_is_a_symptom_even_if_it_was_told_first() -> None:
    ends = [rank_end(0, 10.3, 1, LOST, 9.99), rank_end(1, 10.0, ABORTED), rank_end(2, 10.3, ASKED)]
    assert named(*ends) == [(1, "process-gone")]
    assert named(rank_end(0, 10.3, 1, LOST, 9.99), rank_end(2, 10.3, 1, LOST, 10.2)) == [
        (0, "exception")
    ]


def test_an_exception_with_its_words() -> None:
    ends = [rank_end(2, 10.4, 1, "ValueError: no", 10.0), rank_end(0, 10.2, 1, LOST, 10.1)]
    (finding,) = rank_failed.detect(ends, 3, False, 20.0, rank_failed.LIMITS)
    assert (finding.rank, finding.cause, finding.began_step) == (2, "exception", 7)
    assert "ValueError: no" in finding.summary and finding.began_ago_seconds == 10.0


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (137, "killed by SIGKILL"),
        (142, "ended by a timer (SIGALRM)"),
        (168, "killed by signal 40"),
        (255, "ended with exit code 255"),
    ],
)
def test_only_an_exit_code_of_a_signal_that_exists_names_a_signal(code: int, words: str) -> None:
    (finding,) = rank_failed.detect([rank_end(0, 10.0, code)], 3, False, 20.0, rank_failed.LIMITS)
    assert words in finding.summary


@pytest.mark.parametrize("code", [ASKED, 130])
def test_a_signal_to_all_is_no_failure(code: int) -> None:
    assert named(*(rank_end(rank, 10 + rank / 1000, code) for rank in range(3))) == []


def test_a_preemption_is_no_failure() -> None:
    assert named(rank_end(0, 10.0, KILLED), rank_end(1, 10.0, 75), preempted=True) == []


def test_ctrl_c_is_no_failure() -> None:
    assert named(*(rank_end(rank, 10.0, 1, "KeyboardInterrupt: ", 9.0) for rank in range(3))) == []


def test_a_peer_that_loses_its_connections_to_an_interrupted_rank_has_not_failed() -> None:
    interrupted = rank_end(0, 10.0, 1, "KeyboardInterrupt: ", 9.0)
    assert named(interrupted, rank_end(1, 10.2, 1, LOST, 9.5), world=2) == []
    assert named(interrupted, rank_end(1, 10.2, 1, LOST, 8.5), world=2) == [(1, "exception")]


def test_the_only_rank_that_sigterm_ended_while_the_others_lived_on_is_the_cause() -> None:
    lost = rank_end(1, 10.2, 1, LOST, 9.5)
    assert named(rank_end(0, 9.0, ASKED), lost, world=2) == [(0, "process-gone")]
    assert named(rank_end(0, 9.0, ASKED), lost, rank_end(2, 10.3, ASKED)) == [(0, "process-gone")]
    assert named(rank_end(0, 9.0, ASKED), rank_end(1, 700.0, ABORTED), world=2) == [
        (0, "process-gone")
    ]
    assert named(rank_end(0, 9.6, ASKED), lost, world=2) == [(1, "exception")], "it came after"
    ends = [rank_end(0, 9.49, ASKED), lost, rank_end(2, 9.51, ASKED)]
    assert named(*ends) == [(1, "exception")], "somebody asked them all"


def test_without_exit_codes_the_order_must_be_clear() -> None:
    together = [rank_end(rank, 10 + rank / 100, UNKNOWN_EXIT) for rank in range(3)]
    assert named(*together) == []
    apart = [rank_end(rank, 10 + rank / 5, UNKNOWN_EXIT) for rank in range(3)]
    assert named(*apart) == [(0, "process-gone")]


@pytest.mark.parametrize(("code", "failed"), [(0, False), (UNKNOWN_EXIT, False), (3, True)])
def test_a_rank_that_said_it_finished_failed_only_with_an_exit_code(
    code: int, failed: bool
) -> None:
    assert bool(named(rank_end(0, 10.0, code)._replace(finished=True))) is failed


def test_nobody_ended_is_nothing() -> None:
    assert named() == []


def test_who_left_without_an_error_is_the_cause_and_not_the_peers_that_lost_it() -> None:
    lost = [rank_end(rank, 10.4, 1, LOST, 10.1) for rank in (0, 1)]
    for end in (rank_end(2, 10.0, 0), rank_end(2, 11.9, 0), rank_end(2, 10.0, UNKNOWN_EXIT)):
        assert named(*lost, end._replace(finished=True)) == [(2, "process-gone")]
    assert named(*lost, rank_end(2, 10.0, 0)) == [(2, "process-gone")], "os._exit(0)"
    (finding,) = rank_failed.detect(
        [*lost, rank_end(2, 10.0, 0)], 3, False, 20.0, rank_failed.LIMITS
    )
    assert "rank 2 left first" in finding.summary
    assert named(*lost, rank_end(2, 15.0, 0)) == [(0, "exception")], "long after"
    raised = rank_end(0, 10.4, 1, "ValueError: no", 10.1)
    assert named(raised, rank_end(2, 10.0, 0)._replace(finished=True)) == [(0, "exception")]


def test_where_most_came_to_their_end_who_fails_then_does_so_by_itself() -> None:
    ends = [rank_end(rank, 10.0, 0)._replace(finished=True) for rank in (0, 1)]
    assert named(*ends, rank_end(2, 10.4, 1, LOST, 10.1)) == [(2, "exception")]


def test_a_silent_node_is_the_cause_and_no_survivor() -> None:
    lost = [rank_end(rank, 10.4, 1, LOST, 10.1) for rank in (0, 1)]
    for silence_s, cause, confidence in (
        (1.0, "node-lost", "likely"),
        (60.0, "process-gone", "one of"),
    ):
        silent = [SilentNode("b", (2, 3), silence_s)]
        (finding,) = rank_failed.detect(lost, 4, False, 20.0, rank_failed.LIMITS, silent)
        assert (finding.rank, finding.node) == (NO_RANK, "b")
        assert (finding.cause, finding.confidence) == (cause, confidence)
        assert "ranks 2-3" in finding.summary and "ranks 0-1 lost the connection" in finding.summary
    killed = [*lost, rank_end(2, 10.0, KILLED)]
    (finding,) = rank_failed.detect(killed, 4, False, 20.0, rank_failed.LIMITS, silent)
    assert finding.rank == 2, "what was seen to end comes before what nobody saw"


def test_of_ranks_that_never_reported_one_is_the_cause_and_no_survivor() -> None:
    lost = [rank_end(rank, 10.4, 1, LOST, 10.1) for rank in (0, 1)]
    never = [SilentNode("", (2, 3), math.inf)]
    (finding,) = rank_failed.detect(lost, 4, False, 20.0, rank_failed.LIMITS, never)
    assert (finding.rank, finding.node, finding.confidence) == (NO_RANK, "", "one of")
    assert "one of ranks 2-3, which never sent a record, ended first" in finding.summary
    ends = [rank_end(rank, 10 + rank / 1000, ASKED) for rank in range(2)]
    assert rank_failed.detect(ends, 4, False, 20.0, rank_failed.LIMITS, never) == [], (
        "somebody stopped it while it started"
    )


def test_sigterm_to_all_that_are_observed_may_hide_a_failure_where_nobody_looks() -> None:
    ends = [rank_end(rank, 10 + rank / 1000, ASKED) for rank in range(2)]
    silent = [SilentNode("b", (2, 3), 60.0)]
    (finding,) = rank_failed.detect(ends, 4, False, 20.0, rank_failed.LIMITS, silent)
    assert (finding.rank, finding.node, finding.confidence) == (NO_RANK, "b", "one of")
    assert "ranks 0-1 were ended by SIGTERM" in finding.summary
    just_then = [SilentNode("b", (2, 3), 1.0)]
    assert rank_failed.detect(ends, 4, False, 20.0, rank_failed.LIMITS, just_then) == []
    assert rank_failed.detect(ends, 4, True, 20.0, rank_failed.LIMITS, silent) == []


def finding_of(*ends: RankEnd) -> Finding:
    (finding,) = rank_failed.detect(list(ends), 3, False, 20.0, rank_failed.LIMITS)
    return finding


WATCHDOG = "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12)"
OUT_OF_MEMORY = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB."


def test_a_peer_that_lost_a_killed_rank_before_its_end_was_seen_is_no_culprit() -> None:
    lost = rank_end(0, 10.3, ASKED, LOST, 9.98)
    assert named(lost, rank_end(1, 10.0, KILLED), world=2) == [(1, "process-gone")]


def test_the_last_lines_outrank_an_exit_code_and_are_the_evidence() -> None:
    lines = ("step 6", "terminate called after throwing an instance of 'std::bad_alloc'", "bye")
    finding = finding_of(rank_end(1, 10.0, ABORTED, "", NEVER, *lines), rank_end(0, 10.1, ASKED))
    assert finding.cause is Cause.HOST_MEMORY
    assert f"it ran out of host memory: {lines[1]}" in finding.summary
    row = next(entry for entry in finding.evidence if entry.name == "it wrote at last")
    assert row.text == lines[1] and "memory" in row.against


def test_a_report_that_was_cut_is_read_in_whole_from_the_lines() -> None:
    cut = OUT_OF_MEMORY.removeprefix("[rank1]: torch.")[:40]
    finding = finding_of(rank_end(1, 10.2, 1, cut, 10.0, "warning: no space left", OUT_OF_MEMORY))
    assert finding.cause is Cause.DEVICE_MEMORY and "it ran out of device memory" in finding.summary


def test_an_exception_outranks_what_else_the_rank_wrote() -> None:
    lines = ("OSError: [Errno 28] No space left on device", "ValueError: no", "Socket closed")
    assert finding_of(rank_end(1, 10.2, 1, "ValueError: no", 10.0, *lines)).cause is Cause.EXCEPTION
    assert finding_of(rank_end(1, 10.2, 1, "SystemExit: 3", 10.0, *lines)).cause is Cause.DISK_FULL


def test_a_symptom_in_the_lines_makes_nobody_the_culprit() -> None:
    gave_up = rank_end(0, 10.0, ABORTED, "", NEVER, WATCHDOG)
    assert named(gave_up, rank_end(1, 10.5, KILLED)) == [(1, "process-gone")]
    finding = finding_of(gave_up, rank_end(2, 10.2, ABORTED, "", NEVER, WATCHDOG))
    assert (finding.rank, finding.cause) == (0, Cause.PROCESS_GONE)
    assert finding.confidence is Confidence.LIKELY and "Watchdog caught" in finding.summary


def test_without_a_known_word_the_last_line_is_shown_and_the_cause_stays() -> None:
    finding = finding_of(rank_end(1, 10.0, KILLED, "", NEVER, "step 6", "loading shard 7"))
    assert finding.cause is Cause.PROCESS_GONE
    assert [row.text for row in finding.evidence if "wrote" in row.name] == ["loading shard 7"]


def test_that_no_line_was_kept_is_said_with_its_reason() -> None:
    unknown = rank_end(1, 10.0, KILLED)._replace(no_lines="not kept: start it with `stepwatch run`")
    (row,) = (entry for entry in finding_of(unknown).evidence if "last lines" in entry.name)
    assert row.text == unknown.no_lines
    assert not [
        entry for entry in finding_of(rank_end(1, 10.0, KILLED)).evidence if "last" in entry.name
    ]
