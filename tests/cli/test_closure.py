"""The closure check as a pure function."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.cli import closure
from stepwatch.cli.main import VERBS
from stepwatch.runbooks.page import Page
from stepwatch.signals.names import ALERT_OF, METRICS, FindingKind

WORDS = closure.Vocabulary(METRICS, ALERT_OF, VERBS)


def test_a_finding_without_alert_is_named() -> None:
    words = closure.Vocabulary([], {}, VERBS)
    found_problems = closure.problems(closure.Tree({}, {}, {}), words, {})
    assert [str(problem) for problem in found_problems] == [
        f"{closure.NAMES}: finding {kind.value!r} has no alert; add it to ALERT_OF"
        for kind in FindingKind
    ]


@settings(deadline=None)
@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=200))
def test_no_text_crashes_it_and_each_problem_is_one_line(
    rules: str, dashboard: str, markdown: str
) -> None:
    tree = closure.Tree(
        {"r.yaml": rules}, {"d.json": dashboard}, {"p.md": Page("p", "p.md", markdown)}
    )
    found_problems = closure.problems(tree, WORDS, {})
    assert found_problems
    assert all("\n" not in str(problem) for problem in found_problems)
