"""`stepwatch thresholds`: every detector's thresholds, and a site's changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepwatch.cli.main import OK, PROBLEM, USAGE, main
from stepwatch.collector.detect.thresholds import shipped_thresholds

SITE = """
classes:
  research:
    slos: [goodput]
    thresholds:
      straggler: {least_ratio: 2.0}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(SITE)
    return path


def test_every_detector_is_listed_within_eighty_columns(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["thresholds"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 80
    assert [line for line in lines if line and line[0] != " "] == list(shipped_thresholds())
    assert "  least_ratio = 1.5  (ratio)" in lines
    assert "  window_steps = 8, 16, 32, 64, 128  (steps)" in lines


def test_a_changed_value_is_shown_with_its_place(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["thresholds", "straggler", "--site", str(site)]
    assert main([*words, "--class", "research"]) == OK
    shown = capsys.readouterr().out
    assert "least_ratio = 2.0  (ratio)" in shown
    assert f"2.0 for class research in {site}:6; shipped: 1.5" in " ".join(shown.split())
    assert main(words) == OK
    shown = capsys.readouterr().out
    assert "least_ratio = 1.5  (ratio)" in shown and "2.0 for class research" in shown
    assert main([*words, "--class", "production"]) == OK
    assert "2.0 for class research" not in capsys.readouterr().out


def test_json_has_one_row_per_threshold(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["thresholds", "--json", "--site", str(site), "--class", "research"]) == OK
    rows = json.loads(capsys.readouterr().out)
    assert {row["detector"] for row in rows} == set(shipped_thresholds())
    assert all(row["unit"] and row["reason"] for row in rows)
    (changed,) = (row for row in rows if row["changes"])
    assert (changed["value"], changed["shipped"]) == (2.0, 1.5)
    (change,) = changed["changes"]
    assert change == {"class": "research", "value": 2.0, "place": f"{site}:6"}


def test_wrong_words_are_refused_in_one_line(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["thresholds", "stragler"]) == USAGE
    assert "did you mean 'straggler'?" in capsys.readouterr().err
    assert main(["thresholds", "--class", "research"]) == USAGE
    assert "pass --site FILE" in capsys.readouterr().err
    site.write_text(SITE.replace("least_ratio", "least_ration"))
    for words in (["thresholds"], ["slo", "check"]):
        assert main([*words, "--site", str(site)]) == PROBLEM
        (line,) = capsys.readouterr().err.splitlines()
        assert "straggler.least_ration: there is no such threshold; did you mean" in line
