"""`/v1/nodes` and what `/metrics` says of nodes."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.web.access import Tokens
from stepwatch.collector.web.api import make_api
from stepwatch.signals import names
from tests.collector.client import Client
from tests.collector.made import HandClock, body
from tests.collector.nodes.sightings import DISK_SLOW, XID_79, report


@pytest.fixture
def client(service: Service) -> Client:
    """Four nodes that report at 60 s, one failed and one degraded, and one that is silent."""
    sent = Client(make_api(service))
    segments = [
        report(59, {**XID_79, "began": 30.0}, node="gpu-03"),
        report(59, {**DISK_SLOW, "began": 50.0}, node="gpu-01"),
        report(59, node="gpu-02"),
        report(59, node="gpu-04"),
        report(59, XID_79, node="old-agent", job="job"),
    ]
    sent.post("/v1/segments", body(segments))
    return sent


def listed(client: Client, query: str = "") -> dict[str, Any]:
    document: dict[str, Any] = client.get(f"/v1/nodes{query}").json()
    return document


def names_of(document: dict[str, Any]) -> list[str]:
    return [node["node"] for node in document["nodes"]]


def test_all_nodes_are_listed_by_name_in_pages(client: Client) -> None:
    everything = listed(client)
    assert names_of(everything) == ["gpu-01", "gpu-02", "gpu-03", "gpu-04", "old-agent"]
    assert everything["counts"] == {"failed": 1, "degraded": 1, "unknown": 1, "healthy": 2}
    assert everything["next"] is None and everything["together"] == []
    first = listed(client, "?limit=2")
    assert names_of(first) == ["gpu-01", "gpu-02"] and first["next"] == "gpu-02"
    last_page = listed(client, "?limit=3&after=gpu-02")
    assert names_of(last_page) == ["gpu-03", "gpu-04", "old-agent"] and last_page["next"] is None


def test_a_list_may_be_narrowed(client: Client) -> None:
    assert names_of(listed(client, "?unhealthy=1")) == ["gpu-01", "gpu-03", "old-agent"]
    assert names_of(listed(client, "?health=failed")) == ["gpu-03"]
    assert names_of(listed(client, "?health=healthy&unhealthy=1")) == []
    for query in ("health=well", "limit=0", "limit=501", "limit=two", "limit=-1"):
        answer = client.get(f"/v1/nodes?{query}")
        assert answer.status_code == 400 and answer.json()["error"]


def test_one_node_has_its_facts_parts_and_history(client: Client) -> None:
    document = client.get("/v1/nodes/gpu-03").json()
    assert (document["health"], document["action"], document["agent_version"]) == (
        "failed",
        "reboot",
        "0.1.0",
    )
    (episode,) = document["history"]
    assert (episode["fact"], episode["code"], episode["severity"]) == ("xid", 79, "fatal")
    assert episode["present"] and episode["ended"] is None and episode["job"] is None
    (part,) = document["parts"]
    assert (part["part"], part["health"], part["faults"]) == ("0000:3b:00.0", "failed", 1)
    assert client.get("/v1/nodes/nobody").status_code == 404
    (by_job,) = client.get("/v1/nodes/old-agent").json()["history"]
    assert by_job["job"] == "job"


def test_a_node_that_goes_silent_is_unknown_and_so_are_its_parts(
    client: Client, clock: HandClock
) -> None:
    clock.advance(1000.0)
    document = client.get("/v1/nodes/gpu-03").json()
    assert document["health"] == "unknown" and "It was failed then" in document["reason"]
    assert [part["health"] for part in document["parts"]] == ["unknown"]
    assert listed(client)["counts"] == {"failed": 0, "degraded": 0, "unknown": 5, "healthy": 0}


def test_metrics_count_nodes_by_health(client: Client, service: Service) -> None:
    def samples() -> dict[str, dict[str, float]]:
        families = text_string_to_metric_families(client.get("/metrics").text)
        return {
            family.name: {
                sample.labels.get("health", ""): sample.value for sample in family.samples
            }
            for family in families
        }

    by_health = samples()
    assert by_health[names.COLLECTOR_NODES.name] == {
        "failed": 1.0, "degraded": 1.0, "unknown": 1.0, "healthy": 2.0
    }  # fmt: skip
    assert by_health[names.COLLECTOR_NODES_OFFENDING.name] == {"": 0.0}
    assert by_health[names.COLLECTOR_NODES_TOGETHER.name] == {"": 0.0}


def test_nodes_need_the_token_and_their_page_does_not(service: Service) -> None:
    guarded = Client(make_api(service, tokens=lambda: Tokens.single("secret")))
    for path in ("/v1/nodes", "/v1/nodes/gpu-03"):
        assert guarded.get(path).status_code == 401
    for path in ("/nodes", "/nodes/gpu-03", "/incidents/x", "/static/licenses.txt"):
        assert guarded.get(path).status_code == 200
    guarded.headers["authorization"] = "Bearer secret"
    assert guarded.get("/v1/nodes").status_code == 200


def test_metrics_leave_nodes_out_while_the_store_is_gone(client: Client, service: Service) -> None:
    with service.store.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE node_fact")
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert "stepwatch_collector_nodes{" not in answer.text
    assert client.get("/v1/nodes").status_code == 503


def test_a_store_that_is_gone_is_asked_once_in_two_seconds(
    service: Service, clock: HandClock
) -> None:
    statements: list[str] = []
    with service.store.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE node_fact")
    sa.event.listen(
        service.store.engine,
        "before_cursor_execute",
        lambda connection, cursor, statement, *arguments: statements.append(statement),
    )
    for _ in range(3):
        with pytest.raises(sa.exc.SQLAlchemyError):
            service.nodes.fleet()
    assert len(statements) == 1
    clock.advance(2.0)
    assert service.nodes.if_known() is None
    assert len(statements) == 2


def test_the_worst_node_comes_first_where_that_is_asked(client: Client) -> None:
    listing = listed(client, "?worst_first=1&limit=2")
    states = [node["health"] for node in listing["nodes"]]
    assert states[0] == "failed" and listing["next"] is None
    order = ["failed", "degraded", "unknown", "healthy"]
    everyone = [node["health"] for node in listed(client, "?worst_first=1")["nodes"]]
    assert everyone == sorted(everyone, key=order.index) and len(everyone) > 3
    assert client.get("/v1/nodes?worst_first=1&after=gpu-01").status_code == 400
