"""`stepwatch status` without a job: which jobs are shown, and how long ago each was seen."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.cli.fleet import Choice, chosen, fleet_text, last_seen, left_out_text

NOW = 1_000_000.0


def job(name: str, state: str, age: float = 3.0, **fields: Any) -> dict[str, Any]:
    """A job as the API lists it."""
    job_fields = {
        "attempt": 0,
        "reason": None,
        "since": None,
        "world_size": 8,
        "step": 1200,
        "newest_record_at": NOW - age,
        "open_incidents": 0,
        "worst": None,
        "slos": [
            {"name": "step-time", "state": "ok"},
            {"name": "checkpoint-freshness", "state": "ok"},
        ],
    }
    return {"job": name, "state": state, **job_fields, **fields}


JOBS = [
    job("llama-7b", "running"),
    job("llama-70b", "finished", 600),
    job("vit", "failed", 9000),
    job("vit-stopped", "interrupted", 9000),
    job("vit-hang", "failed", 9000, open_incidents=1),
    job("lost", "unknown", 60),
    job("lost-long-ago", "unknown", 200_000),
    job("bad", "quarantined", newest_record_at=None, open_incidents=None, reason="x", since=1.0),
]


def names(choice: Choice) -> tuple[list[str], int]:
    shown, left_out = chosen(JOBS, choice, NOW)
    return [job_line["job"] for job_line in shown], left_out


def test_a_job_of_which_only_old_things_are_known_says_how_old() -> None:
    about = {"seconds": 40.0, "state": "running", "reason": "as of 40 s ago; nobody answers"}
    old = job("vit", "stale", stale=about, open_incidents=None)
    old["slos"] = [{"name": "step-time", "state": "unknown"}]
    shown = fleet_text(chosen([old], Choice(), NOW)[0], 100, NOW)
    assert "vit: as of 40 s ago; nobody answers; it was running then" in shown
    assert " ok" not in shown


def test_ended_jobs_are_hidden_unless_they_need_somebody() -> None:
    assert names(Choice()) == (["llama-7b", "vit-hang", "lost", "bad"], 4)
    assert names(Choice(all=True)) == ([job_line["job"] for job_line in JOBS], 0)


def test_jobs_are_chosen_by_name_and_by_state() -> None:
    assert names(Choice(pattern="llama-*")) == (["llama-7b"], 1)
    assert names(Choice(pattern="llama-*", all=True))[0] == ["llama-7b", "llama-70b"]
    assert names(Choice(state="failed")) == (["vit", "vit-hang"], 0)
    assert names(Choice(pattern="none")) == ([], 0)


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (0.2, "0 s ago"),
        (119, "119 s ago"),
        (121, "2 min ago"),
        (7300, "2 h ago"),
        (200_000, "2 days ago"),
        (-5, "0 s ago"),
    ],
)
def test_last_seen_in_words(age: float, words: str) -> None:
    assert last_seen(NOW - age, NOW) == words
    assert last_seen(None, NOW) == "unknown"


def test_the_table_fits_a_narrow_terminal() -> None:
    shown, left_out = chosen(JOBS, Choice(), NOW)
    table = fleet_text(shown, 78, NOW)
    assert max(map(len, table.splitlines())) <= 80
    assert "llama-7b  running      3 s ago" in table and table.splitlines()[1].endswith(" ok")
    assert "bad: quarantined since 1970-01-01 00:00:01 UTC: x" in table
    assert left_out_text(left_out) == "4 ended jobs not shown; --all shows them"


def test_a_narrow_terminal_shows_fewer_columns_and_one_word_for_all_slos() -> None:
    long = job("a-name-of-thirty-characters-xx", "degraded", step=1_234_567)
    long["slos"] = [{"name": n, "state": s} for n, s in (("goodput", "burning"), ("b", "ok"))]
    narrow, wide = fleet_text([long], 78, NOW), fleet_text([long], 138, NOW)
    assert max(map(len, narrow.splitlines())) <= 78 and "attempt" not in narrow
    assert "burning 1 of 2" in narrow and "attempt" in wide
