from __future__ import annotations

from dataclasses import replace

from tests.verdicts.scenario.examples import JOB
from tests.verdicts.scenario.outcome import Wanted, run
from tests.verdicts.scenario.plan import Fault, FaultKind, Pauses
from tests.verdicts.scenario.scored.matching import match
from tests.verdicts.scenario.scored.summary import figures, table
from tests.verdicts.scenario.truth import expected

from .replay import attempts, replay


def test_a_stopped_process_is_named_and_nothing_before_it() -> None:
    fault = Fault(FaultKind.STOP, (3,), onset=20.2)
    scenario = replace(JOB, seconds=45.0, faults=(fault,))
    matched = match(expected(scenario), replay(scenario).incidents)
    (answer,) = matched.answers
    assert (answer.found, answer.rank, answer.cause) == (True, True, True)
    assert 0.0 < answer.seconds < 20.0
    assert not matched.false


def test_a_healthy_job_with_a_marked_evaluation_is_quiet() -> None:
    scenario = replace(JOB, seconds=40.0, pauses=Pauses(12, 6.0))
    assert not replay(scenario).incidents


def test_a_failed_attempt_is_started_again_and_nothing_is_found_in_the_new_one() -> None:
    killed = Fault(FaultKind.KILL, (3,), onset=12.0)
    scenario = replace(JOB, seconds=45.0, faults=(killed,), restart_seconds=4.0, peers_raise=True)
    (first, _), (begins, second) = attempts(scenario)
    assert (first, begins, second.faults) == (0, 18, ())
    opened = [incident for incident in replay(scenario).incidents if incident["opened_at"] > begins]
    assert not opened


def test_a_scenario_becomes_a_line_of_the_report() -> None:
    documents = [run(Wanted(2, "kill"))]
    assert figures(documents)["scenarios"] == 1
    assert "kill" in table(documents)
