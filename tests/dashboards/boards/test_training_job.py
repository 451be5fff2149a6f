"""The on-call dashboard as Grafana gets it."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from stepwatch.alerts.catalogue import ALERTS
from stepwatch.alerts.links import DEFAULT_GRAFANA, DEFAULT_RUNBOOKS, Links
from stepwatch.alerts.spec import Severity
from stepwatch.cli import artefacts
from stepwatch.dashboards.boards import training_job
from stepwatch.dashboards.sdk import dashboard as models
from stepwatch.signals.names import ALERT_NAMES

LINKS = Links(DEFAULT_RUNBOOKS, f"{DEFAULT_GRAFANA}/d/{training_job.UID}")
# Since Grafana 8.0; the number that a dashboard of schema v1 must at least carry to be left as is.
OLDEST_SCHEMA = 30


def text() -> str:
    pages = artefacts.build(LINKS, [artefacts.DASHBOARDS])
    return next(artefact.text for artefact in pages if artefact.name == training_job.FILE)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    built: dict[str, Any] = json.loads(text())
    return built


def data_panels(page: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in page["panels"] if panel["type"] != "row"]


def test_the_same_build_gives_the_same_bytes() -> None:
    assert text() == text()


def test_the_committed_file_is_this_build() -> None:
    root = artefacts.checkout(Path(__file__).resolve())
    assert root is not None
    assert (root / "dashboards/generated/training-job.json").read_text() == text()


def test_identity_fits_what_grafana_takes(page: dict[str, Any]) -> None:
    assert page["uid"] == training_job.UID
    assert len(page["uid"]) <= 40
    assert page["schemaVersion"] >= OLDEST_SCHEMA
    assert page["editable"] is False
    assert "id" not in page or page["id"] is None


def test_panel_ids_are_unique_and_in_reading_order(page: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in page["panels"]]
    assert ids == list(range(1, len(ids) + 1))
    places = [(panel["gridPos"]["y"], panel["gridPos"]["x"]) for panel in page["panels"]]
    assert places == sorted(places)


def test_panels_lie_on_the_grid_and_do_not_overlap(page: dict[str, Any]) -> None:
    boxes = [panel["gridPos"] for panel in page["panels"]]
    assert all(box["x"] >= 0 and box["x"] + box["w"] <= 24 and box["h"] > 0 for box in boxes)
    for first, second in combinations(boxes, 2):
        disjoint = first["x"] + first["w"] <= second["x"] or second["x"] + second["w"] <= first["x"]
        below = first["y"] + first["h"] <= second["y"] or second["y"] + second["h"] <= first["y"]
        assert disjoint or below


def test_unknown_shows_no_data_and_is_never_green(page: dict[str, Any]) -> None:
    for panel in data_panels(page):
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["noValue"], panel["title"]
        for mapping in defaults.get("mappings", []):
            assert mapping["options"]["result"]["color"] == "text"
        if panel["type"] == "timeseries":
            assert defaults["custom"]["spanNulls"] is False
            assert panel["options"]["legend"]["calcs"] == ["last", "max"]
        if panel["type"] == "stat":
            # `last`, not `lastNotNull`: an old value is not a value.
            assert panel["options"]["reduceOptions"]["calcs"] == ["last"]
            assert all(target["instant"] for target in panel["targets"])


def test_zero_open_incidents_is_not_praised(page: dict[str, Any]) -> None:
    (panel,) = (panel for panel in page["panels"] if panel["title"] == "Open incidents")
    colors = [step["color"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
    assert colors == ["text", "red"]


def test_every_panel_describes_what_it_shows(page: dict[str, Any]) -> None:
    titles = [panel["title"] for panel in data_panels(page)]
    assert all(panel["description"].endswith(".") for panel in data_panels(page))
    assert all(titles)
    assert len(set(titles)) == len(titles)


def test_targets_have_refs_of_their_own_and_the_chosen_source(page: dict[str, Any]) -> None:
    for panel in data_panels(page):
        refs = [target["refId"] for target in panel["targets"]]
        assert refs
        assert len(set(refs)) == len(refs)
        for source in (panel["datasource"], *(t["datasource"] for t in panel["targets"])):
            assert source == {"type": "prometheus", "uid": "${datasource}"}


def test_variables_are_the_source_and_one_job(page: dict[str, Any]) -> None:
    source, job = page["templating"]["list"]
    assert (source["name"], source["query"]) == ("datasource", "prometheus")
    assert job["name"] == "job"
    assert job["query"]["query"] == "label_values(stepwatch_job_info, job_name)"
    assert job["multi"] is False


def test_runbook_links_are_in_view(page: dict[str, Any]) -> None:
    titles = [link["title"] for link in page["links"] if link["title"].startswith("Runbook")]
    paging = {alert.name for alert in ALERTS if alert.severity is Severity.PAGE}
    assert titles == [f"Runbook {name}" for name in sorted(paging)]
    assert all("placement" not in link for link in page["links"])


def test_the_table_of_incidents_leads_to_every_runbook(page: dict[str, Any]) -> None:
    (panel,) = (panel for panel in page["panels"] if panel["title"] == "Open incidents by kind")
    titles = {link["title"] for link in panel["links"]}
    assert titles == {f"Runbook {name}" for name in ALERT_NAMES}


def test_stragglers_join_rank_and_slowdown(page: dict[str, Any]) -> None:
    (panel,) = (panel for panel in page["panels"] if panel["title"] == "Stragglers")
    merge, organise = panel["transformations"]
    assert merge["id"] == "merge"
    shown = organise["options"]["renameByName"]
    assert shown["Value #A"] == "rank"
    assert shown["Value #B"] == "times its peers"


def test_ranks_and_steps_are_not_abbreviated(page: dict[str, Any]) -> None:
    """Grafana's unit `short` shows step 12,345 as 12.3 K."""
    units = {p["title"]: p["fieldConfig"]["defaults"]["unit"] for p in data_panels(page)
             if "unit" in p["fieldConfig"]["defaults"]}  # fmt: skip
    for title in ("Step", "Newest verified step", "Steps at risk", "Stragglers"):
        assert units[title] == "none"


def test_runbooks_open_with_the_values_of_the_chosen_job(page: dict[str, Any]) -> None:
    links = [*page["links"], *(link for p in page["panels"] for link in p.get("links", []))]
    runbooks = [link["url"] for link in links if link["title"].startswith("Runbook")]
    assert len(runbooks) > 20
    assert all(url.endswith("?job=${job:percentencode}") for url in runbooks)


def test_an_overspent_budget_is_above_a_line_at_all_of_it(page: dict[str, Any]) -> None:
    (panel,) = (panel for panel in page["panels"] if panel["title"] == "Error budget spent")
    assert panel["targets"][0]["expr"].startswith("1 - ")
    assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][-1]["value"] == 1


def test_the_sdk_reads_it_back_unchanged(page: dict[str, Any]) -> None:
    read = models.Dashboard.from_json(json.loads(text()))
    assert read.uid == page["uid"]
    assert len(read.panels or []) == len(page["panels"])
