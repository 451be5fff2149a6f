"""Site files and folders of documents: what they ask of jobs, and what is wrong with them."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.slo import asked
from stepwatch.collector.slo.asked.owners import owner_of
from stepwatch.collector.slo.asked.site import Objectives, Planned, read_objectives
from stepwatch.collector.store import Store
from stepwatch.collector.web import job_view
from stepwatch.signals.errors import ConfigurationError
from tests.collector.made import EPOCH, JOB, HandClock, body, run_segments

SHIPPED = resources.files(asked) / "documents"
SITE = """
classes:
  production:
    slos: [goodput, step-time]
  trial:
    slos: []
maintenance:
  - from: 2026-11-20T08:00:00Z
    until: 2026-11-20T10:00:00Z
    why: new firmware on the switches
    classes: [production]
"""
PROFILED = """
  research:
    slos: [goodput]
    profile_incidents: [straggler, launch-bound]
  "*":
    slos: [goodput]
    profile_incidents: [data-skew]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    slo_folder = tmp_path / "slos"
    slo_folder.mkdir()
    for name in ("goodput.yaml", "step-time.yaml"):
        (slo_folder / name).write_text((SHIPPED / name).read_text(encoding="utf-8"))
    return slo_folder


def refused(folder: Path | None, site: Path | None = None) -> list[str]:
    with pytest.raises(ConfigurationError) as refusal:
        read_objectives(folder, site)
    return str(refusal.value).splitlines()


def test_what_is_shipped_asks_more_of_production_than_of_trials() -> None:
    objectives = read_objectives()
    assert [slo.name for slo in objectives.slos_for("trial")] == []
    assert [slo.name for slo in objectives.slos_for("experiment")] == ["goodput"]
    assert [slo.name for slo in objectives.slos_for("unlisted")] == ["goodput"]
    assert {"goodput", "checkpoint-success"} < {
        slo.name for slo in objectives.slos_for("production")
    }


def test_documents_and_a_site_file(folder: Path, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(SITE.replace("10:00:00Z", "11:00:00+01:00"))
    objectives = read_objectives(folder, site)
    assert [slo.name for slo in objectives.slos_for("production")] == ["goodput", "step-time"]
    assert [slo.name for slo in objectives.slos_for("research")] == ["goodput", "step-time"]
    assert objectives.slos_for("trial") == []
    ((first, until),) = objectives.without("production")
    assert until - first == 2 * 3600
    assert not objectives.without("research")
    assert not read_objectives(folder).planned


def test_profiles_of_incidents_are_off_until_a_class_names_some(
    folder: Path, tmp_path: Path
) -> None:
    site = tmp_path / "site.yaml"
    assert read_objectives().profiled == {} == read_objectives(folder).profiled
    site.write_text(SITE.replace("maintenance:", PROFILED + "maintenance:"))
    objectives = read_objectives(folder, site)
    assert objectives.profiled_for("research") == {"straggler", "launch-bound"}
    assert objectives.profiled_for("unlisted") == {"data-skew"}
    assert objectives.profiled_for("production") == frozenset()
    assert "profiles of classes changed" in objectives.changes_since(read_objectives(folder))


def test_an_incident_that_names_no_slow_rank_is_refused(folder: Path, tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(
        SITE.replace("maintenance:", PROFILED + "maintenance:").replace("launch-bound", "hang")
    )
    (line,) = refused(folder, site)
    assert "no rank is profiled for 'hang'" in line and "straggler" in line
    site.write_text(
        SITE.replace("maintenance:", PROFILED + "maintenance:").replace("[data-skew]", "data-skew")
    )
    (line,) = refused(folder, site)
    assert "write a list of incidents, such as [straggler, launch-bound]" in line


def test_planned_spans_that_touch_are_one() -> None:
    planned = [Planned(30.0, 40.0, "c"), Planned(0.0, 10.0, "a"), Planned(10.0, 20.0, "b")]
    objectives = Objectives({}, {}, tuple(planned))
    assert objectives.without("any") == [(0.0, 20.0), (30.0, 40.0)]


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("step-time]", "step-tme]", 4, "there is no SLO 'step-tme'; did you mean 'step-time'?"),
        ("step-time]", "goodput]", 4, "goodput is named twice; keep one"),
        ("classes:\n  prod", "clases:\n  prod", 2, "no such key; did you mean 'classes'?"),
        ("until: 2026-11-20T10:00:00Z", "until: soon", 9, "write a moment, such as"),
        ("until: 2026-11-20T10:00:00Z", "until: 2026-11-20T08:00:00", 9, "write a moment"),
        ("2026-11-20T10:00:00Z", "9999-12-31T23:59:59-10:00", 9, "write a moment, such as"),
        ("2026-11-20T08:00:00Z", "0001-01-01T00:00:00+14:00", 8, "write a moment, such as"),
        ("T10:00:00Z", "T08:00:00Z", 9, "it ends before it begins"),
        ("    why: new firmware on the switches\n", "", 8, "why: is missing; write the work done"),
        ("slos: [goodput, step-time]", "slos: goodput", 4, "write a list of names of SLOs"),
        ("trial:", "production:", 5, "a key that is repeated"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_to_do(
    folder: Path, tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(SITE.replace(old, new, 1))
    (error,) = refused(folder, site)
    assert error.startswith(f"{site}:{line}: ") and words in error, error


def test_owners_are_said_by_patterns_where_a_run_says_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site.yaml"
    site.write_text(
        "owners:\n  - {jobs: llama-*, project: llama}\n  - {jobs: '*', project: rest, team: t}\n"
    )
    rules = read_objectives(None, site).owners
    assert owner_of("llama-7b", {}, rules) == {"project": "llama", "team": "t"}
    assert owner_of("llama-7b", {"project": "mine"}, rules)["project"] == "mine"
    assert owner_of("other", {"cost_centre": "4711"}, ()) == {"cost_centre": "4711"}
    site.write_text("owners:\n  - {jobs: a, projekt: b}\n")
    (line,) = refused(None, site)
    assert line.startswith(
        f"{site}:2: owners.projekt: there is no such key; did you mean 'project'"
    )


def test_two_documents_of_one_name_and_a_folder_without_any(folder: Path, tmp_path: Path) -> None:
    (folder / "copy.yaml").write_text((folder / "goodput.yaml").read_text())
    (error,) = refused(folder)
    assert "goodput.yaml:1:" in error and "copy.yaml is called 'goodput', too" in error
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "holds no *.yaml" in refused(empty)[0]
    assert "cannot be read" in refused(None, tmp_path / "none.yaml")[0]


@given(st.text() | st.text("- :[]{}&*!|>'\"%@`#,?\n ab1", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder_name:
        site = Path(folder_name) / "site.yaml"
        site.write_text(text, encoding="utf-8")
        try:
            read_objectives(None, site)
        except ConfigurationError as error:
            assert all(line.startswith(str(site)) for line in str(error).splitlines())


def test_what_changed_is_said() -> None:
    objectives = read_objectives()
    name = "goodput"
    changed = objectives.slos[name]._replace(target=objectives.slos[name].target / 2)
    later = Objectives(
        {**objectives.slos, name: changed}, objectives.classes, (Planned(0, 1, "work"),)
    )
    first, last = later.changes_since(objectives)
    assert (
        first == f"SLO {name}: revision {objectives.slos[name].revision} becomes {changed.revision}"
    )
    assert last == "planned: work"
    assert objectives.changes_since(objectives) == []


def test_a_running_collector_asks_something_else_from_the_next_evaluation_on(store: Store) -> None:
    service = Service(store, HandClock(30.0))
    service.receive(body(run_segments(120)))
    service.evaluate()

    def asked_now() -> dict[str, str]:
        job_state = service.job(JOB)
        assert job_state is not None
        slos = job_view.job_summary(*job_state, service.now())["slos"]
        return {slo["name"]: slo["state"] for slo in slos}

    assert asked_now() == {"goodput": "too-early"}
    everything = Objectives(read_objectives().slos)
    service.site_objectives.replace(everything)
    service.receive(body(run_segments(125)[24:]))
    service.evaluate()
    assert asked_now() == {
        "checkpoint-stall": "unknown",
        "checkpoint-success": "unknown",
        "goodput": "too-early",
        "resume-success": "unknown",
        "step-time": "too-early",
        "step-time-spread": "ok",
    }
    service.site_objectives.replace(None)
    assert service.site_objectives.are_unreadable and len(asked_now()) == 6
    planned = Planned(float(EPOCH), EPOCH + 1000.0, "all of it")
    service.site_objectives.replace(everything._replace(planned=(planned,)))
    service.receive(body(run_segments(130)[25:]))
    service.evaluate()
    assert asked_now()["goodput"] == "unknown" and not service.site_objectives.are_unreadable
