"""Every query of every dashboard on a real Prometheus that scraped a real run, and what is shown.

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

from tests.dashboards.node.installed import node
from tests.dashboards.served.grafana import filled
from tests.dashboards.served.recording import BOARDS, recording
from tests.dashboards.served.run import JOB, Fleet
from tests.waiting import until

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
def recorded(fleet: Fleet) -> dict[str, Any]:
    return recording(fleet.source, time.time(), RANGE_SECONDS, {"job": JOB})


def shown(recorded: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What Grafana would show of a recording."""
    (folder / "recording.json").write_text(json.dumps(recorded))
    node("shown.mjs", folder / "recording.json", folder / "shown.json")
    made: dict[str, Any] = json.loads((folder / "shown.json").read_text())
    return made["boards"]  # type: ignore[no-any-return]


def problems(boards: dict[str, Any]) -> list[str]:
    return [
        f"{name}: {panel['title']}: {problem}"
        for name, board in boards.items()
        for panel in board["panels"]
        for problem in panel["problems"]
    ]


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_every_panel_has_data_or_a_reason(recorded: dict[str, Any], board: str) -> None:
    found: dict[str, bool] = {}
    titles = {panel["id"]: panel["title"] for panel in recorded["boards"][board]["board"]["panels"]}
    for answer in recorded["boards"][board]["answers"]:
        title = titles[answer["panel"]]
        found[title] = found.get(title, False) or bool(answer["result"])
    empty = {title for title, has in found.items() if not has}
    excused = set(EMPTY.get(board, {}))
    missing = ", ".join(sorted(empty - excused))
    assert not missing, f"empty without a reason in empty.toml: {missing}"
    assert excused <= set(found), "empty.toml excuses panels that do not exist"


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_answers_are_of_the_expected_type_and_no_series_is_of_a_rank(
    recorded: dict[str, Any], board: str
) -> None:
    for answer in recorded["boards"][board]["answers"]:
        assert "$" not in answer["expr"]
        assert answer["type"] == ("vector" if answer["instant"] else "matrix"), answer["expr"]
        assert len(answer["result"]) <= MOST_SERIES, answer["expr"]
        assert not any("rank" in series["metric"] for series in answer["result"])


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_prometheus_takes_the_annotations(fleet: Fleet, board: str) -> None:
    variables = fleet.source.variables(BOARDS[board])
    for each in json.loads(BOARDS[board]).get("annotations", {}).get("list", []):
        if "expr" in each:
            kind, _ = fleet.source.ask(filled(each["expr"], variables), False, time.time())
            assert kind == "matrix"


def test_the_run_is_annotated_with_its_attempts_checkpoints_and_incidents(fleet: Fleet) -> None:
    marks = {
        each["name"]: filled(each["expr"], {"job": JOB})
        for each in json.loads(BOARDS["training-job.json"])["annotations"]["list"]
        if "expr" in each
    }

    def marked(name: str) -> bool:
        return bool(fleet.source.ask(marks[name], False, time.time(), 600)[1])

    # A range ends on a whole step: what was scraped since then is marked by the next.
    for name in ("Attempt began", "Incident opened", "Checkpoint verified"):
        until(name, partial(marked, name), 60.0)


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
        found = fleet.source.exemplars(filled(expr, {"job": JOB}), time.time(), 600)
        asked = {each["labels"]["trace_id"] for each in found}
        assert asked
        sent = {each.span.trace_id.hex() for each in list(fleet.traces.taken)}
        # The newest may be on their way still.
        assert asked & sent
        assert all(float(each["value"]) > 0 for each in found)


def test_grafana_would_show_every_panel_as_it_is_meant(
    recorded: dict[str, Any], tmp_path: Path
) -> None:
    boards = shown(recorded, tmp_path)
    assert not problems(boards)
    job = {panel["title"]: panel for panel in boards["training-job.json"]["panels"]}
    assert job["Telemetry coverage"]["numbers"][0]["text"].endswith("%")
    assert job["Step time"]["series"][0]["text"].endswith(("s", "ms"))
    straggler = dict(zip(job["Stragglers"]["columns"], job["Stragglers"]["rows"][0], strict=True))
    assert straggler["rank"]["text"] == "2"
    money = {panel["title"]: panel for panel in boards["cost.json"]["panels"]}["Money spent"]
    assert money["numbers"][0]["name"] == "USD"


def test_what_does_not_fit_the_data_is_found(recorded: dict[str, Any], tmp_path: Path) -> None:
    broken = copy.deepcopy(recorded)
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
    said = "\n".join(problems(shown(broken, tmp_path)))
    for expected in (
        "Tokens per second: unit tokenps is none of Grafana's",
        'SLO state: override of "status" matches no field',
        "SLO state: override sets mapping, which is no setting",
        "Stragglers: column culprit is renamed and is not there",
        "Stragglers: column phase has no heading",
        "Probes: transformation organise is none of Grafana's",
    ):
        assert expected in said, said


def test_values_of_several_are_alternatives_and_taken_literally() -> None:
    assert filled('a{b=~"$job"}', {"job": ["x.y", "z"]}) == 'a{b=~"(x\\\\.y|z)"}'
    assert filled('a{b=~"$job"}', {"job": ["one"]}) == 'a{b=~"one"}'
