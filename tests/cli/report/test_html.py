"""`stepwatch report --html`: one file that a browser shows without a word in its console."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.cli.main import OK, USAGE, main
from stepwatch.cli.report.chart import COLOURS, HEIGHT, days_chart
from stepwatch.cli.report.page import page
from stepwatch.cli.report.sections import Section, Table
from stepwatch.cli.verbs import report
from stepwatch.collector.slo.waste import CAUSES
from stepwatch.collector.store import Store
from tests.browser import Visitor, opened_browser
from tests.cli.report.month import FIRST_DAY, PROJECTS, month

MARKUP = "<img src=x onerror=alert(1)>"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The report on a month of four jobs, as a file; the class of one of them is markup."""
    monkeypatch.setattr(report, "_now_s", lambda: FIRST_DAY + 30 * report.DAY - 1)
    store = Store.sqlite(tmp_path / "store.db")
    days = month(jobs=4, classes=("production", MARKUP))
    store.save_evaluation("any", [], [], days=days)
    store.close()
    path = tmp_path / "month.html"
    words = ["report", "--month", "--store", str(tmp_path / "store.db"), "--html", str(path)]
    assert main(words) == OK
    return path


def test_a_browser_shows_it_without_an_error_and_asks_nobody(written: Path) -> None:
    with opened_browser() as browser:
        for dark in (False, True):
            visitor = Visitor(browser, dark=dark)
            visitor.page.goto(written.as_uri())
            page = visitor.page
            assert page.locator("h1").inner_text() == "Report on all jobs"
            assert page.locator("h2").count() >= 7
            for heading in ("Classes", "SLOs", "Projects"):
                assert page.get_by_role("heading", name=heading, exact=True).is_visible()
            assert page.locator("b").count() == 0 and page.get_by_text(PROJECTS[2]).count() == 1
            bars = page.locator("svg rect")
            assert bars.count() >= 30 * 5
            heights = [float(bar.get_attribute("height") or 0) for bar in bars.all()]
            assert 0 < sum(heights) <= 30 * HEIGHT
            # What a job calls its class is text here, and no element.
            assert page.get_by_text(MARKUP).count() >= 1 and page.locator("img").count() == 0
            assert visitor.errors == []
            assert {url for url in visitor.requests if not url.startswith("data:")} == {
                written.as_uri()
            }
            overflow = "document.documentElement.scrollWidth - window.innerWidth"
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate(overflow) <= 0
            visitor.page.close()


def test_every_cause_has_a_colour_of_its_own() -> None:
    assert tuple(COLOURS) == tuple(map(str, CAUSES))
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_without_device_time_there_is_no_chart() -> None:
    idle = {"day": FIRST_DAY, "allocated_seconds": 0.0, "seconds": {}}
    assert days_chart([], CAUSES) == days_chart([idle], CAUSES) == ""
    assert "<svg" not in page("Idle", [Section("")], {"days": [idle], "causes": CAUSES})


def test_whatever_is_in_a_cell_is_text() -> None:
    section = Section(MARKUP, [MARKUP], Table([MARKUP], [[MARKUP]]), MARKUP)
    assert "<img" not in page(MARKUP, [section], {"days": [], "causes": CAUSES})


def test_a_file_that_cannot_be_written_is_one_line(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    words = ["report", "--store", str(tmp_path / "store.db"), "--html", str(tmp_path / "no" / "x")]
    assert main(words) == USAGE
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "--html" in line and "No such file" in line
