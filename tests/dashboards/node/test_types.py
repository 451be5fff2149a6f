"""Every generated dashboard has the types of Grafana's foundation SDK, by TypeScript's compiler."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards.node.sdk_types import typescript
from tests.dashboards.node.toolchain import install, tsc
from tests.dashboards.served.recording import BOARDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder from which the packages are found."""
    types_folder = tmp_path_factory.mktemp("typed")
    (types_folder / "node_modules").symlink_to(install() / "node_modules")
    return types_folder


def test_every_dashboard_is_one_to_grafanas_types(folder: Path) -> None:
    files = []
    for name, text in BOARDS.items():
        files.append(folder / name.replace(".json", ".ts"))
        files[-1].write_text(typescript(json.loads(text)))
    completed = tsc(*files)
    assert completed.returncode == 0, completed.stdout[-4000:]


def break_board(name: str) -> dict[str, Any]:
    """Return a dashboard with one part that violates Grafana's types."""
    board: dict[str, Any] = json.loads(BOARDS["training-job.json"])
    panel = next(
        panel_document
        for panel_document in board["panels"]
        if panel_document["type"] == "timeseries"
    )
    if name == "unknown-key":
        panel["descripton"] = ""
    elif name == "wrong-type":
        panel["fieldConfig"]["defaults"]["unit"] = 1
    elif name == "unknown-word":
        panel["fieldConfig"]["defaults"]["custom"]["drawStyle"] = "dots"
    elif name == "unknown-option":
        panel["options"]["legend"]["shown"] = True
    elif name == "unknown-query-key":
        panel["targets"][0]["expression"] = "up"
    else:
        board["refesh"] = "10s"
    return board


def test_the_compiler_refuses_what_is_no_dashboard(folder: Path) -> None:
    wrong = ("unknown-key", "wrong-type", "unknown-word", "unknown-option", "unknown-query-key",
             "of-the-dashboard")  # fmt: skip
    files = [folder / f"{name}.ts" for name in wrong]
    for file in files:
        file.write_text(typescript(break_board(file.stem)))
    refused = set(re.findall(r"([\w-]+)\.ts\(\d+,\d+\): error TS2", tsc(*files).stdout))
    assert refused == set(wrong)
