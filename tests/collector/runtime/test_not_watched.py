"""Ranks whose hooks could not make a ring: said once, with what they lack; the others go on."""

from __future__ import annotations

import pytest

from stepwatch.collector.store import Store
from stepwatch.signals.records import Kind, LifecycleEvent, ProcessState, make_rows
from tests.collector.made import HandClock, lifecycle_rows, state_rows
from tests.collector.runtime.test_evaluation import Site

WATCHED = range(2)


class Half(Site):
    """Four ranks on one node; of two of them there is no ring."""

    def __init__(self, store: Store, clock: HandClock, free: int) -> None:
        super().__init__(store, clock)
        self.nodes = {"node-0": WATCHED}
        rows = make_rows(Kind.AGENT, 1, ring_free_bytes=free)
        self.send({Kind.AGENT: rows})

    def end(self) -> None:
        """The ranks that are watched finish, and their processes are gone."""
        states = state_rows(WATCHED, self.world, self.clock.monotonic, self.step)
        states["process_state"] = ProcessState.GONE
        ends = lifecycle_rows(LifecycleEvent.FINISH, WATCHED, time_s=self.clock.monotonic)
        self.send({Kind.LIFECYCLE: ends, Kind.RANK_STATE: states})
        self.clock.advance(20.0)
        self.service.evaluate()


@pytest.mark.parametrize(
    ("free", "words"),
    [
        (0, "the ring folder of node node-0 has no room for a ring"),
        (1 << 30, "start an agent on their node; if one runs, the job's log has the reason"),
    ],
)
def test_what_they_lack_is_said_once_and_pages_nobody(
    store: Store, clock: HandClock, free: int, words: str
) -> None:
    site = Half(store, clock, free)
    site.run(120)
    (incident,) = site.view()["incidents"]
    assert (incident["kind"], incident["cause"]) == ("telemetry-lost", "not-watched")
    assert (incident["severity"], incident["state"]) == ("info", "open")
    assert incident["summary"].startswith("ranks 2-3 are not watched since the start: ")
    assert words in incident["summary"]
    assert [row["event"] for row in incident["timeline"]] == ["began", "opened"]


def test_the_others_are_shown_and_evaluated_and_the_job_ends(
    store: Store, clock: HandClock
) -> None:
    site = Half(store, clock, 0)
    site.run(60)
    assert (site.view()["step"], site.view()["state"]) == (59, "running")
    site.run(20, excess={(1, "forward"): 0.9})
    named = {incident["kind"]: incident["rank"] for incident in site.view()["incidents"]}
    assert named["straggler"] == 1
    site.end()
    assert site.view()["state"] == "finished"
    assert all(incident["state"] != "open" for incident in site.view()["incidents"])
