from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from tests.verdicts.real.outside import Outside, stopped_share
from tests.verdicts.scenario.examples import with_fault
from tests.verdicts.scenario.plan import FaultKind, Scenario, Telemetry

PIDS = [100, 101, 102, 103]


def sent_signals(scenario: Scenario, *moments: float) -> tuple[list[tuple[int, int]], list[int]]:
    """Return the signals (process, number) and the killed agents at these moments."""
    signals: list[tuple[int, int]] = []
    agents: list[int] = []
    outside = Outside(scenario, PIDS, agents.append, lambda *call: signals.append(call))
    for moment in moments:
        outside.tick(moment)
    return signals, agents


def test_a_signal_is_sent_once_and_not_before_its_moment() -> None:
    scenario = with_fault(FaultKind.KILL, 3)
    assert sent_signals(scenario, 0.0, 49.9) == ([], [])
    assert sent_signals(scenario, 50.0, 50.1, 60.0) == ([(103, signal.SIGKILL)], [])


def test_a_lost_node_loses_its_agent_and_its_ranks() -> None:
    scenario = with_fault(FaultKind.NODE_LOST, 2, 3, node=1)
    assert sent_signals(scenario, 51.0) == ([(102, signal.SIGKILL), (103, signal.SIGKILL)], [1])


def test_a_process_is_stopped_in_the_first_part_of_each_cycle() -> None:
    scenario = with_fault(FaultKind.STOPPED_NOW_AND_THEN, 1, effect=0.4)
    stop, go = (101, signal.SIGSTOP), (101, signal.SIGCONT)
    assert sent_signals(scenario, 50.0, 51.0, 52.1, 54.0, 55.1)[0] == [stop, go, stop]


def test_a_process_that_is_stopped_when_the_fault_ends_goes_on() -> None:
    scenario = with_fault(FaultKind.STOPPED_NOW_AND_THEN, 1, effect=0.4, seconds=6.0)
    stop, go = (101, signal.SIGSTOP), (101, signal.SIGCONT)
    assert sent_signals(scenario, 50.0, 52.1, 55.1, 56.0, 60.1)[0] == [stop, go, stop, go]


@pytest.mark.parametrize(("effect", "share"), [(1.25, 0.2), (2.0, 0.5), (4.0, 0.75)])
def test_who_takes_so_many_times_as_long_runs_for_the_rest_of_the_time(
    effect: float, share: float
) -> None:
    fault = with_fault(FaultKind.SLOW_COMPUTE, 1, effect=effect).faults[0]
    assert stopped_share(fault) == pytest.approx(share)


def test_an_agent_is_killed_at_its_moment() -> None:
    telemetry = Telemetry(killed_node=1, killed_at=20.0)
    scenario = replace(with_fault(FaultKind.STOP, 0), telemetry=telemetry)
    assert sent_signals(scenario, 19.0, 20.0, 21.0) == ([], [1])
