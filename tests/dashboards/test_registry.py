"""A dashboard is added by adding a file, as CONTRIBUTING describes."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from stepwatch.alerts.links import DEFAULT_GRAFANA, DEFAULT_RUNBOOKS, Links
from stepwatch.cli import artefacts
from stepwatch.dashboards import boards, finalise, registry
from stepwatch.dashboards.thresholds import Thresholds
from tests.contracts.recipes import recipe

THRESHOLDS = Thresholds(1.5, 0.9, 900.0, 60.0, 2, 4, 10.0, "https://c", {}, frozenset())


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """An empty package of dashboards."""
    (tmp_path / "made_boards").mkdir()
    (tmp_path / "made_boards/__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("made_boards")
    for name in [name for name in sys.modules if name.startswith("made_boards")]:
        del sys.modules[name]


def test_the_recipe_for_a_dashboard_works_as_written(package: ModuleType) -> None:
    (source,) = recipe("A dashboard")
    folder = Path(package.__path__[0])
    (folder / "fleet.py").write_text(source)
    (board,) = registry.boards(package)
    built = json.loads(finalise.text(board.build(THRESHOLDS)))
    assert board.FILE == "fleet.json"
    assert [panel["title"] for panel in built["panels"]] == ["Fleet", "Step"]


def test_a_file_that_is_no_dashboard_is_refused_with_what_it_lacks(package: ModuleType) -> None:
    (Path(package.__path__[0]) / "notes.py").write_text('FILE = "notes.json"\n')
    with pytest.raises(TypeError, match=r"made_boards.notes lacks build"):
        registry.boards(package)


def test_every_module_of_the_folder_is_built_into_a_file_of_its_own() -> None:
    modules = {path.stem for path in Path(boards.__path__[0]).glob("*.py")} - {"__init__"}
    links = Links(DEFAULT_RUNBOOKS, DEFAULT_GRAFANA)
    names = [artefact.name for artefact in artefacts.build(links, [artefacts.DASHBOARDS])]
    assert len(names) == len(set(names)) == len(modules)
