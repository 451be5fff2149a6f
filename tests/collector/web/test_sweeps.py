"""The trials of a sweep over HTTP."""

from __future__ import annotations

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.api import make_api
from stepwatch.collector.web.sweeps.trials import MOST_SETTINGS, differing
from tests.collector.client import Client
from tests.collector.made import body, run_segments, with_facts


def trial(name: str, rate: str, steps: int) -> bytes:
    facts = ("learning_rate", rate), ("model", "7b")
    return body(with_facts(run_segments(steps, 2, job=name), *facts))


def test_trials_have_the_settings_that_differ_and_their_best_value(service: Service) -> None:
    client = Client(make_api(service))
    for name, rate, steps in (("lr-a", "0.1", 20), ("lr-b", "0.2", 40), ("other", "0.3", 5)):
        client.post("/v1/segments", content=trial(name, rate, steps))
    service.evaluate()
    answer = client.get("/v1/sweeps?match=lr-").json()
    assert (answer["count"], answer["settings"]) == (2, ["learning_rate"])
    trials = {entry["job"]: entry for entry in answer["trials"]}
    assert {name: entry["settings"]["learning_rate"] for name, entry in trials.items()} == {
        "lr-a": "0.1",
        "lr-b": "0.2",
    }
    assert {name: round(entry["value"]["least"], 2) for name, entry in trials.items()} == {
        "lr-a": 4.81,
        "lr-b": 4.61,
    }
    assert {"name": "step_seconds", "evaluation": ""} in answer["metrics"]
    assert trials["lr-b"]["device_seconds"] > trials["lr-a"]["device_seconds"] > 0
    missing = client.get("/v1/sweeps?match=lr-&metric=bleu").json()
    assert [entry["value"] for entry in missing["trials"]] == [None, None]


def test_parameters_are_bounded(service: Service) -> None:
    client = Client(make_api(service))
    for query in ("", "?match=", "?match=" + "a" * 10_000, "?match=a&metric=" + "m" * 301):
        assert client.get(f"/v1/sweeps{query}").status_code == 400, query


def test_only_settings_that_differ_are_named_and_not_more_than_a_few() -> None:
    many = [{f"s{n}": str(trial_number) for n in range(99)} for trial_number in range(2)]
    assert len(differing(many)) == MOST_SETTINGS
    assert differing([{"a": "1", "b": "2"}, {"a": "1"}]) == ["b"]
    assert differing([]) == []
