"""A resume in the status of a job."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.cli.jobs.status_text import resume_words


def attempt(**changes: Any) -> dict[str, Any]:
    resume = {
        "step": 60,
        "path": "/runs/a/step-60.pt",
        "loss_before": 2.312,
        "loss_after": 2.298,
        "loss_continued": True,
        "learning_rate_continued": False,
        "data_order": "restarted",
    }
    return {"attempt": 2, "resume": resume | changes}


def test_a_resume_is_one_line_with_all_that_it_continued() -> None:
    assert resume_words(attempt()) == (
        "attempt 2 from step 60, /runs/a/step-60.pt: loss 2.312 -> 2.298, continued; "
        "learning rate not continued; data order restarted"
    )


@pytest.mark.parametrize("value", [None, False])
def test_unknown_is_not_continued_and_says_so(value: bool | None) -> None:
    words = resume_words(attempt(path="", loss_after=None, loss_continued=value))
    verdict = "unknown if it continued" if value is None else "not continued"
    assert f"from step 60: loss 2.312 -> unknown, {verdict}; " in words
