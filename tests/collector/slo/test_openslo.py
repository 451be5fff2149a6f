"""SLO documents: what is read as written, and what is refused with its line and what to do."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.slo.asked.openslo import default_slos, parse_slo
from stepwatch.collector.slo.asked.windows import RollingWindow
from stepwatch.collector.slo.objectives import TimeSlices
from stepwatch.signals.errors import ConfigurationError

DATA = Path(__file__).parents[2] / "data"
GOOD = (DATA / "good" / "goodput.yaml").read_text()


def test_the_slos_that_come_along_are_read() -> None:
    slos = {slo.name: slo for slo in default_slos()}
    assert slos["step-time"].target == slos["goodput"].target == Decimal("0.95")
    assert slos["step-time"].window == RollingWindow(28 * 86_400)
    limits = {name: slo.limit.words for name, slo in slos.items() if slo.limit}
    assert limits == {
        "checkpoint-stall": "at most 0.01",
        "checkpoint-success": "at least 1",
        "resume-success": "at least 1",
        "step-time-spread": "at most 2",
    }


@pytest.mark.parametrize("path", sorted((DATA / "good").glob("*.yaml")), ids=lambda p: p.stem)
def test_good_documents(path: Path) -> None:
    slo = parse_slo(path.read_text(), path.name)
    assert slo.target == Decimal("0.999"), "as written, not as a float"
    assert slo.window == RollingWindow(28 * 86_400)


@pytest.mark.parametrize("path", sorted((DATA / "bad").glob("*.yaml")), ids=lambda p: p.stem)
def test_bad_documents_are_refused_by_name(path: Path) -> None:
    with pytest.raises(ConfigurationError, match=path.name):
        parse_slo(path.read_text(), path.name)


def test_there_are_documents() -> None:
    assert len(list((DATA / "bad").glob("*.yaml"))) >= 15
    assert list((DATA / "good").glob("*.yaml"))


def refused(text: str) -> list[str]:
    """The lines of the refusal of `text` as `job.yaml`."""
    with pytest.raises(ConfigurationError) as refusal:
        parse_slo(text, "job.yaml")
    return str(refusal.value).splitlines()


def line_with(words: str) -> int:
    """The line of the good document that holds `words`, from 1."""
    return next(number for number, line in enumerate(GOOD.splitlines(), 1) if words in line)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("target: 0.999", "target: 99.9", "spec.objectives.target: "),
        ("target: 0.999", "target: .inf", "spec.objectives.target: "),
        ("duration: 4w", "duration: 400d", "400d is not between 1m and 366d; write a duration"),
        ("isRolling: true", "isRolling: false", "needs a calendar with startTime and timeZone"),
        ("kind: SLO", "kind: Service", "write SLO"),
        ("name: goodput-weekly", "name: a b", "'a b' is not a name; write 1-63 letters"),
        ("sli: goodput", "sli: happiness", "no SLI 'happiness'; write one of "),
        ("kind: SLO", "kind: SLO\nkind: SLO", "a key that is repeated"),
        ("service: training", "service: &a training\n  other: *a", "an alias"),
        ("service: training", "service: !!binary aGk=", "write a plain value"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_what_to_do(old: str, new: str, words: str) -> None:
    (line,) = refused(GOOD.replace(old, new, 1))
    line_number = line_with(old) + new.count("\n")
    assert line.startswith(f"job.yaml:{line_number}: ") and words in line


def test_every_mistake_of_a_document_has_a_line_of_its_own() -> None:
    wrong = GOOD.replace("0.999", "1").replace("4w", "soon").replace("openslo/v1", "v2")
    assert [line.split(":")[1] for line in refused(wrong)] == [
        str(line_with(words)) for words in ("openslo/v1", "4w", "0.999")
    ]


def test_what_is_missing_is_told_at_the_line_above_it() -> None:
    without = GOOD.replace("    - target: 0.999", "    - displayName: nearly all")
    (line,) = refused(without)
    assert line.startswith(f"job.yaml:{line_with('target')}: spec.objectives: target is missing; ")


def test_a_key_that_is_not_known_is_refused_with_the_nearest_one() -> None:
    (line,) = refused(GOOD.replace("budgetingMethod", "budgetMethod"))
    assert "spec.budgetMethod: there is no such key; did you mean 'budgetingMethod'?" in line
    (line,) = refused(GOOD.replace("    - target: 0.999", "    - target: 0.999\n      goal: 1"))
    assert "spec.objectives.goal: there is no such key" in line


def test_a_second_objective_is_refused_and_not_ignored() -> None:
    (line,) = refused(GOOD + "    - target: 0.5\n")
    assert "give exactly one objective; write a document for each" in line


def test_a_document_may_name_an_sli_that_was_added() -> None:
    text = GOOD.replace("sli: goodput", "sli: calm")
    assert parse_slo(text, "job.yaml", {"calm"}).sli == "calm"


SLICES = GOOD.replace("Occurrences", "Timeslices").replace(
    "- target: 0.999", "- target: 0.999\n      timeSliceTarget: 0.9\n      timeSliceWindow: 5m"
)


def test_slices_of_time() -> None:
    slo = parse_slo(SLICES, "job.yaml")
    assert slo.time_slices == TimeSlices(Decimal("0.9"), 300)
    assert slo.document["asked"] == "at least 99.9% in slices of 5 min with at least 90% good"
    assert slo.revision != parse_slo(GOOD, "job.yaml").revision


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("timeSliceWindow: 5m", "timeSliceWindow: 7m", "is kept in slices of 5 min; write a mult"),
        ("timeSliceWindow: 5m", "timeSliceWindow: 30d", "30d is not part of the window; write"),
        ("      timeSliceWindow: 5m\n", "", "Timeslices need timeSliceTarget and timeSliceWindow"),
        ("timeSliceTarget: 0.9", "timeSliceTarget: 90", "write the share of a slice that must be"),
        ("Timeslices", "Occurrences", "timeSliceTarget and timeSliceWindow need budgetingMethod"),
        ("Timeslices", "RatioTimeslices", "would be an average of ratios"),
    ],
)
def test_slices_of_time_that_cannot_be_counted_are_refused(old: str, new: str, words: str) -> None:
    assert old in SLICES
    (line,) = refused(SLICES.replace(old, new))
    assert line.startswith("job.yaml:") and words in line


@given(st.text() | st.text("- :[]{}&*!|>'\"%@`#,?\n ab1", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for line in refused(text):
        assert line.startswith("job.yaml:")
