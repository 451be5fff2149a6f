"""A file argument that is missing, a folder or no text: one line of plain words for each verb."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.cli.main import OK, main

READ = [
    ["status", "--token-file"],
    ["status", "--ca"],
    ["collector", "--site"],
    ["collector", "--rates"],
    ["collector", "--receivers"],
    ["collector", "--token-file"],
    ["slo", "check", "--site"],
    ["slo", "check"],
    ["build", "routes", "--site"],
    ["report", "--rates"],
    ["compare", "a.json"],
    ["agent", "--metrics-token-file"],
]


@pytest.mark.parametrize("words", READ, ids=" ".join)
@pytest.mark.parametrize("shape", ["missing", "folder", "binary"])
def test_it_is_one_line_of_plain_words(
    words: list[str], shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "given.yaml"
    if shape == "folder":
        place.mkdir()
    elif shape == "binary":
        place.write_bytes(b"\xff\xfe\x00")
    store = ["--store", str(tmp_path / "s.db")] if words[0] == "collector" else []
    assert main([*words, str(place), *store]) != OK
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert not any(word in shown.err for word in ("Errno", "codec", "Traceback")), shown.err


def test_a_folder_without_documents_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["slo", "check", str(tmp_path)]) != OK
    assert "holds no *.yaml" in capsys.readouterr().err
