"""What a job's history answers over HTTP: curves, device-time, marks, the matrix."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo.over_run.slis.pace.throughput import FLOPS, PEAK
from stepwatch.collector.web.api import make_api
from tests.collector.client import Client
from tests.collector.made import EPOCH, JOB, body, run_segments, with_facts

STEPS, WORLD, SECONDS = 30, 4, 0.2


@pytest.fixture
def client(service: Service) -> Client:
    opened = Client(make_api(service))
    slow = run_segments(STEPS, WORLD, SECONDS, {(2, "forward"): 0.1}, slow_from=20)
    opened.post("/v1/segments", content=body(slow))
    service.evaluate()
    return opened


def read(client: Client, path: str) -> Any:
    """The answer as JSON, without the NaN and Infinity that Python's reader would let through."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    answer = client.get(f"/v1/jobs/{JOB}/{path}")
    assert answer.status_code == 200, answer.text
    return json.loads(answer.text, parse_constant=refuse)


def test_curves_of_the_standard_metrics(client: Client) -> None:
    answer = read(client, "series")
    curves = {curve["name"]: curve for curve in answer["series"]}
    assert [*curves] == ["loss", "step_seconds", "tokens_per_second", "grad_norm"]
    assert (answer["job"], answer["state"], answer["attempt"]) == (JOB, "degraded", 0)
    assert (answer["resolution"], answer["missing"]) == ("step", [])
    assert (answer["from"], answer["to"]) == (EPOCH + SECONDS, EPOCH + STEPS * SECONDS)
    assert curves["loss"]["step"] == [*range(STEPS)]
    assert curves["loss"]["mean"][:2] == [5, 4.99]
    assert curves["step_seconds"]["max"][19:21] == [0.2, 0.3]
    assert curves["tokens_per_second"]["mean"][0] == pytest.approx(WORLD * 100 / SECONDS)
    assert {"name": "step_seconds", "evaluation": "", "unit": "s"} in answer["available"]


def test_a_metric_without_a_value_is_missing(client: Client) -> None:
    answer = read(client, "series?metric=bleu&metric=loss&metric=mfu")
    assert [curve["name"] for curve in answer["series"]] == ["loss"]
    assert [item["name"] for item in answer["missing"]] == ["bleu", "mfu"]
    assert "flops_per_token" in answer["missing"][1]["reason"]


def test_mfu_is_the_rate_over_the_devices_peak(service: Service) -> None:
    client = Client(make_api(service))
    facts = (FLOPS, "1e9"), (PEAK, "1e13")
    client.post(
        "/v1/segments", content=body(with_facts(run_segments(STEPS, WORLD, SECONDS), *facts))
    )
    (curve,) = read(client, "series?metric=mfu")["series"]
    assert curve["step"] == [*range(1, STEPS)], "the first step includes the start-up"
    assert curve["mean"] == pytest.approx([100 * 1e9 / SECONDS / 1e13] * (STEPS - 1))


def test_device_time_by_cause(client: Client) -> None:
    answer = read(client, "spent")
    assert (answer["at"], answer["seconds"]) == ([EPOCH], [10])
    seconds = {cause: sum(values) for cause, values in answer["causes"].items()}
    assert sum(seconds.values()) == pytest.approx(STEPS * SECONDS * WORLD, rel=1e-3)
    assert seconds["straggling"] == pytest.approx(10 * SECONDS * WORLD / 4, rel=0.01)


def test_rows_of_ranks_nodes_and_stages(client: Client) -> None:
    answer = read(client, f"matrix?columns={STEPS // 10}")
    assert answer["steps"] == [[0, 9], [10, 19], [20, 29]]
    assert [row["words"] for row in answer["rows"]] == [f"rank {rank}" for rank in range(WORLD)]
    assert answer["seconds"][2] == pytest.approx([0.16, 0.16, 0.26])
    nodes = read(client, "matrix?by=node&columns=3")
    assert [row["words"] for row in nodes["rows"]] == ["node-0"]
    assert nodes["slowest"] == [[0, 0, 2]]
    stages = read(client, "matrix?by=stage&from_step=20&to_step=29&columns=1")
    assert [row["words"] for row in stages["rows"]] == ["stage 0", "stage 1"]
    assert (stages["slowest"], stages["known_steps"]) == ([[0], [2]], [0, 29])
    drilled = read(client, "matrix?first=2&last=3&columns=1")
    assert [(row["first"], row["last"]) for row in drilled["rows"]] == [(2, 2), (3, 3)]


@pytest.mark.parametrize(
    "path",
    [
        "series?points=49",
        "series?points=nan",
        "series?from=2&to=1",
        "series?to=-1",
        "spent?from=inf",
        "marks?from=yesterday",
        "matrix?by=device",
        "matrix?metric=bogus",
        "matrix?rows=513",
        "matrix?last=131072",
        "series?metric=" + "x" * 301,
        "series?" + "&".join(f"metric=m{number}" for number in range(17)),
    ],
)
def test_a_parameter_out_of_bounds_is_refused(client: Client, path: str) -> None:
    answer = client.get(f"/v1/jobs/{JOB}/{path}")
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_an_unchanged_answer_is_304(client: Client, service: Service) -> None:
    for path in ("series", "spent", "marks", "matrix"):
        first = client.get(f"/v1/jobs/{JOB}/{path}")
        service.evaluate()
        client.headers = {"if-none-match": first.headers["etag"]}
        assert client.get(f"/v1/jobs/{JOB}/{path}").status_code == 304, path
        client.headers = {}
    other = client.get(f"/v1/jobs/{JOB}/series?metric=loss")
    assert other.headers["etag"] != client.get(f"/v1/jobs/{JOB}/series").headers["etag"]


def test_an_unknown_job_is_404(client: Client) -> None:
    for path in ("series", "spent", "marks", "matrix"):
        assert client.get(f"/v1/jobs/nothing/{path}").status_code == 404
