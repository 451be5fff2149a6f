"""Every query of every dashboard on a real Prometheus that scraped a real run, and its rendering.

Answers go through Grafana's own `@grafana/data`: transformations, units, overrides, texts.
"""

from __future__ import annotations

import copy
import json
import time
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.node.toolchain import node
from tests.dashboards.served.grafana import fill
from tests.dashboards.served.recording import BOARDS, recording
from tests.dashboards.served.run import JOB, Fleet
from tests.waiting import until

pytestmark = pytest.mark.long(
    "tests/dashboards/test_queries_evaluated.py::test_a_query_gives_what_its_panel_describes",
    "tests/dashboards/test_queries_evaluated.py::test_prometheus_accepts_every_query_of_the_dashboards",
    "tests/dashboards/test_linter.py::test_a_dashboard_keeps_the_rule_or_is_excused",
    "tests/dashboards/node/test_types.py::test_every_dashboard_is_one_to_grafanas_types",
)

EMPTY: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("empty.toml").read_text(encoding="utf-8")
)
"""Panels that may be empty here, by file of the dashboard, each with the reason."""
RANGE_SECONDS = 120
MOST_SERIES = 100
"""A table holds a hundred rows at most, a line panel far fewer."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with Fleet(tmp_path_factory.mktemp("served")) as running:
        running.wait()
        yield running


@pytest.fixture(scope="module")
def answers_of_run(fleet: Fleet) -> dict[str, Any]:
    return recording(fleet.source, time.time(), RANGE_SECONDS, {"job": JOB})


def render(answers_of_run: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the boards as Grafana would render a recording."""
    (folder / "recording.json").write_text(json.dumps(answers_of_run))
    node("shown.mjs", folder / "recording.json", folder / "shown.json")
    document: dict[str, Any] = json.loads((folder / "shown.json").read_text())
    return document["boards"]  # type: ignore[no-any-return]


def problems(boards: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {panel['title']}: {problem}"
        for name, board in boards.items()
        for panel in board["panels"]
        for problem in panel["problems"]
    ]


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_every_panel_has_data_or_a_reason(answers_of_run: dict[str, Any], board: str) -> None:
    filled_panels: dict[str, bool] = {}
    titles = {
        panel["id"]: panel["title"] for panel in answers_of_run["boards"][board]["board"]["panels"]
    }
    for answer in answers_of_run["boards"][board]["answers"]:
        title = titles[answer["panel"]]
        filled_panels[title] = filled_panels.get(title, False) or bool(answer["result"])
    empty = {title for title, has in filled_panels.items() if not has}
    excused = set(EMPTY.get(board, {}))
    missing = ", ".join(sorted(empty - excused))
    assert not missing, f"empty without a reason in empty.toml: {missing}"
    assert excused <= set(filled_panels), "empty.toml excuses panels that do not exist"


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_answers_are_of_the_expected_type_and_no_series_is_of_a_rank(
    answers_of_run: dict[str, Any], board: str
) -> None:
    for answer in answers_of_run["boards"][board]["answers"]:
        assert "$" not in answer["expr"]
        assert answer["type"] == ("vector" if answer["instant"] else "matrix"), answer["expr"]
        assert len(answer["result"]) <= MOST_SERIES, answer["expr"]
        assert not any("rank" in series["metric"] for series in answer["result"])


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_prometheus_takes_the_annotations(fleet: Fleet, board: str) -> None:
    variables = fleet.source.variables(BOARDS[board])
    for annotation in json.loads(BOARDS[board]).get("annotations", {}).get("list", []):
        if "expr" in annotation:
            kind, _ = fleet.source.ask(fill(annotation["expr"], variables), False, time.time())
            assert kind == "matrix"


def test_the_run_is_annotated_with_its_attempts_checkpoints_and_incidents(fleet: Fleet) -> None:
    marks = {
        annotation["name"]: fill(annotation["expr"], {"job": JOB})
        for annotation in json.loads(BOARDS["training-job.json"])["annotations"]["list"]
        if "expr" in annotation
    }

    def has_mark(name: str) -> bool:
        return bool(fleet.source.ask(marks[name], False, time.time(), 600)[1])

    # A range ends on a whole step: the next step includes the newest scrape.
    for name in ("Attempt began", "Incident opened", "Checkpoint verified"):
        until(name, partial(has_mark, name), 60.0)


def test_an_exemplar_of_a_panel_leads_to_a_trace_that_was_sent(fleet: Fleet) -> None:
    targets = [
        target["expr"]
        for text in BOARDS.values()
        for panel in json.loads(text)["panels"]
        for target in panel.get("targets", [])
        if target.get("exemplar")
    ]
    assert targets
    for expr in targets:
        exemplars = fleet.source.exemplars(fill(expr, {"job": JOB}), time.time(), 600)
        trace_ids = {exemplar["labels"]["trace_id"] for exemplar in exemplars}
        assert trace_ids
        sent = {record.span.trace_id.hex() for record in list(fleet.traces.taken)}
        # The newest may be on their way still.
        assert trace_ids & sent
        assert all(float(exemplar["value"]) > 0 for exemplar in exemplars)


def test_grafana_would_show_every_panel_as_it_is_meant(
    answers_of_run: dict[str, Any], tmp_path: Path
) -> None:
    boards = render(answers_of_run, tmp_path)
    assert not problems(boards)
    job = {panel["title"]: panel for panel in boards["training-job.json"]["panels"]}
    assert job["Telemetry coverage"]["numbers"][0]["text"].endswith("%")
    assert job["Step time"]["series"][0]["text"].endswith(("s", "ms"))
    straggler = dict(zip(job["Stragglers"]["columns"], job["Stragglers"]["rows"][0], strict=True))
    assert straggler["rank"]["text"] == "2"
    money = {panel["title"]: panel for panel in boards["cost.json"]["panels"]}["Money spent"]
    assert money["numbers"][0]["name"] == "USD"


def test_what_does_not_fit_the_data_is_found(
    answers_of_run: dict[str, Any], tmp_path: Path
) -> None:
    broken = copy.deepcopy(answers_of_run)
    panels = {
        panel["title"]: panel for panel in broken["boards"]["training-job.json"]["board"]["panels"]
    }
    panels["Tokens per second"]["fieldConfig"]["defaults"]["unit"] = "tokenps"
    panels["SLO state"]["fieldConfig"]["overrides"][0]["matcher"]["options"] = "status"
    panels["SLO state"]["fieldConfig"]["overrides"][0]["properties"][0]["id"] = "mapping"
    columns = panels["Stragglers"]["transformations"][-1]["options"]["renameByName"]
    columns["culprit"] = columns.pop("cause")
    del columns["phase"]
    panels["Probes"]["transformations"][0]["id"] = "organise"
    text = "\n".join(problems(render(broken, tmp_path)))
    for expected in (
        "Tokens per second: unit tokenps is none of Grafana's",
        'SLO state: override of "status" matches no field',
        "SLO state: override sets mapping, which is not a setting",
        "Stragglers: column culprit is renamed and is not there",
        "Stragglers: column phase has no heading",
        "Probes: transformation organise is none of Grafana's",
    ):
        assert expected in text, text


def test_values_of_several_are_alternatives_and_taken_literally() -> None:
    assert fill('a{b=~"$job"}', {"job": ["x.y", "z"]}) == 'a{b=~"(x\\\\.y|z)"}'
    assert fill('a{b=~"$job"}', {"job": ["one"]}) == 'a{b=~"one"}'
