"""Every generated dashboard has the types of Grafana's foundation SDK, by TypeScript's compiler."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.dashboards.node.sdk_types import typescript
from tests.dashboards.node.toolchain import install, tsc
from tests.dashboards.served.recording import BOARDS

WRONG = ("unknown-key", "wrong-type", "unknown-word", "unknown-option", "unknown-query-key",
         "of-the-dashboard")  # fmt: skip


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """File and message of each error of the compiler, in all dashboards and all broken ones."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "node_modules").symlink_to(install() / "node_modules")
    boards = {name.removesuffix(".json"): json.loads(text) for name, text in BOARDS.items()}
    for name, board in {**boards, **{name: break_board(name) for name in WRONG}}.items():
        (folder / f"{name}.ts").write_text(typescript(board))
    completed = tsc(*sorted(folder.glob("*.ts")))
    assert completed.returncode == 2, completed.stdout[-4000:]
    return re.findall(r"([\w-]+)\.ts\(\d+,\d+\): error (.+)", completed.stdout)


def test_every_dashboard_is_one_to_grafanas_types(errors: list[tuple[str, str]]) -> None:
    assert [error for error in errors if error[0] not in WRONG] == []


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


def test_the_compiler_refuses_what_is_no_dashboard(errors: list[tuple[str, str]]) -> None:
    assert {name for name, text in errors if text.startswith("TS2")} == set(WRONG)
