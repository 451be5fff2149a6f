"""`stepwatch store` in a terminal and for programs."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from stepwatch.cli.main import main
from stepwatch.cli.verbs.store import ACTIONS
from stepwatch.collector.store import Store
from stepwatch.collector.store.migrations import SCHEMAS
from tests.collector.made import JOB
from tests.collector.store.filled import OTHER, fill, positions
from tests.collector.store.next_schema import BEFORE, NEXT, install


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store of long ago."""
    path = tmp_path / "store.db"
    store = Store.sqlite(path)
    fill(store)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE job SET last_received_ns = 1000")
    store.close()
    return path


def test_every_action_answers_people_and_programs(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, words in enumerate(
        (["size"], ["prune", "--dry-run"], ["verify"], ["backup"], ["restore"], ["compact"])
    ):
        for shape in ([], ["--json"]):
            file = tmp_path / f"backup{number}{len(shape)}.db"
            options = ["--store", str(place)]
            if words == ["backup"]:
                options += [str(file)]
            if words == ["restore"]:
                backup = tmp_path / f"backup3{len(shape)}.db"
                options = ["--store", str(tmp_path / f"new{len(shape)}.db"), str(backup)]
            assert main(["store", *words, *options, *shape]) == 0, words
            out = capsys.readouterr().out
            assert json.loads(out) if shape else out.strip(), words
    store = Store.sqlite(tmp_path / "new0.db")
    assert positions(store) == [1, 2, 3, 4, 5, 6]
    store.close()


def test_prune_removes_what_its_dry_run_says(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["store", "prune", "--json", "--store", str(place)]
    assert main([*words, "--keep-segments", "forever"]) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == []
    assert main([*words, "--dry-run"]) == 0
    would = json.loads(capsys.readouterr().out)
    assert [(item["job"], item["rows"]) for item in would["removed"]] == [(JOB, 6), (OTHER, 6)]
    assert main(words) == 0
    removed = json.loads(capsys.readouterr().out)
    assert removed == {**would, "dry_run": False}
    store = Store.sqlite(place)
    assert positions(store) == []
    store.close()


def test_verify_exits_1_for_a_damaged_store(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.sqlite(place)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE segment SET payload = x'00' WHERE position = 2")
    store.close()
    assert main(["store", "verify", "--store", str(place)]) == 1
    assert f"segment 2 of job {JOB} is damaged" in capsys.readouterr().out


def test_migrate_says_what_it_did(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["store", "migrate", "--store", str(place), "--to"]
    assert main([*words, NEXT]) != 0
    error = capsys.readouterr().err
    known = ", ".join(SCHEMAS)
    assert error.endswith(f"from schema {BEFORE} to {NEXT}: this stepwatch knows {known}\n")
    install(monkeypatch, tmp_path / "migrations")
    for more, text in (
        ([NEXT, "--dry-run"], f"would move the store from schema {BEFORE} to {NEXT}"),
        ([BEFORE], f"the store has schema {BEFORE} already"),
        ([NEXT], f"moved the store from schema {BEFORE} to {NEXT}"),
    ):
        assert main([*words, *more]) == 0
        assert text in capsys.readouterr().out
    assert main([*words, BEFORE, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["old_schema"] == NEXT


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["backup"], "file"),
        (["size", "s.db"], "s.db"),
        (["size", "--dry-run"], "--dry-run"),
        (["size", "--store", "nowhere.db"], "there is no store nowhere.db"),
        (["prune", "--keep-segments", "0.5"], "from 1 to 36500 days, or forever"),
        (["shrink"], "shrink"),
        (["migrate"], "--to"),
        ([], "ACTION"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", *words]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error and "\n" not in error


def test_a_file_that_fails_is_named_with_its_reason_in_words(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device", "/backups/a.db")

    monkeypatch.setitem(ACTIONS, "verify", ACTIONS["verify"]._replace(act=full))
    assert main(["store", "verify", "--store", str(place)]) != 0
    error = capsys.readouterr().err
    assert error == "stepwatch: cannot verify the store: /backups/a.db: no space left\n"


def test_help_has_an_example_for_each_action(capsys: pytest.CaptureFixture[str]) -> None:
    for action in ACTIONS:
        with pytest.raises(SystemExit):
            main(["store", action, "--help"])
        assert f"example: stepwatch store {action} " in capsys.readouterr().out
