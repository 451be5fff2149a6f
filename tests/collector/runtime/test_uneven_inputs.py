"""A rank that is out of data is done: the others go on, and are shown, counted and compared."""

from __future__ import annotations

from stepwatch.collector.slo.states import SloState
from stepwatch.collector.store import Store
from stepwatch.signals.records import Kind, LifecycleEvent, Phase
from tests.collector.made import HandClock, lifecycle_rows, state_rows, step_rows
from tests.collector.runtime.test_evaluation import Site

DONE, SLOW = 0, 2


def run_without_one(
    site: Site, since: int, seconds: int, phase: Phase = Phase.OTHER, excess: float = 0.0
) -> None:
    """All ranks but `DONE` make a step a second; it stands before its step `since`."""
    for _ in range(seconds):
        site.clock.advance(1.0)
        stood = site.step - since + 1
        now_s, other_ranks = site.clock.monotonic, range(1, site.world)
        states = state_rows(range(site.world), site.world, now_s, site.step, 0.05)
        states["phase"][DONE], states["step"][DONE] = phase, since
        states["since_ns"][DONE] -= stood * 1_000_000_000
        rows = step_rows(
            [site.step], other_ranks, 1.0, {(SLOW, "forward"): excess} if excess else None
        )
        rows["time_ns"] = round(now_s * 1e9)
        site.send({Kind.RANK_STATE: states, Kind.STEP: rows})
        site.step += 1
        site.service.evaluate()
    assert site.service.evaluation_failures == 0


def test_steps_of_the_others_are_shown_and_a_slow_one_is_named(
    store: Store, clock: HandClock
) -> None:
    site = Site(store, clock)
    site.run(40)
    run_without_one(site, 40, 150)
    assert site.view()["step"] == site.step - 1 == 189
    assert site.incidents() == []
    states = {slo["state"] for slo in site.view()["slos"]}
    assert SloState.FROZEN not in states
    run_without_one(site, 40, 20, excess=0.9)
    (incident,) = site.view()["incidents"]
    assert (incident["kind"], incident["rank"], incident["phase"]) == ("straggler", SLOW, "forward")
    assert ("ranks that are done", "rank 0") in {
        (row["name"], row.get("text")) for row in incident["evidence"]
    }


def test_a_rank_that_finished_first_is_done_at_once(store: Store, clock: HandClock) -> None:
    site = Site(store, clock)
    site.run(40)
    site.send({Kind.LIFECYCLE: lifecycle_rows(LifecycleEvent.FINISH, [DONE])})
    run_without_one(site, 40, 10)
    assert site.view()["step"] == site.step - 1


def test_a_rank_inside_a_step_is_not_done_however_far_the_others_are(
    store: Store, clock: HandClock
) -> None:
    site = Site(store, clock)
    site.run(40)
    run_without_one(site, 40, 30, Phase.FORWARD)
    assert site.view()["step"] == 39
