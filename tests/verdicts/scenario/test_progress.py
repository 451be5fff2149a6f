from __future__ import annotations

import io

from .progress import Progress, in_words


def test_what_is_left_is_said_in_hours_and_minutes() -> None:
    assert in_words(12.34, 200.0, 5400.0, "job-days") == "12.34 of 200 job-days, 1 h 30 min left"
    assert in_words(1, 3, 20.0, "scenarios") == "1 of 3 scenarios, under 1 min left"


def test_only_what_was_done_now_says_how_long_the_rest_takes() -> None:
    out, moments = io.StringIO(), iter([0.0, 10.0, 60.0])
    progress = Progress(100, 104, "scenarios", out, lambda: next(moments))
    progress.more(1)
    progress.more(1)
    assert out.getvalue() == "102 of 104 scenarios, 1 min left\n"
