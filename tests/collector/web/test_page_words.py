"""What the page of a job says of what is not known, of its scale, and of ranks that ended."""

from __future__ import annotations

import pytest

from stepwatch.signals.records import ProcessState
from tests.browser import Visitor
from tests.collector.process import Process

from .shown import evaluated


def test_neither_a_start_up_nor_one_long_step_takes_the_whole_scale(
    straggling: Process, visitor: Visitor
) -> None:
    page = evaluated(straggling, visitor)
    start_up, usual, jitter, long = 3.0, 0.110, 0.125, 25.0
    lines = [[start_up, *([usual, jitter] * 50)] for _ in range(2)]
    lines[1][60] = long
    shares, words = page.evaluate(
        """lines => {
            const steps = lines[0].map((_, step) => [step, step]);
            const scale = scaleOf({ steps, seconds: lines }, 0);
            return [[0.002, 0.110, 0.125, 25.0, 60.0].map(scale.share), scale.words];
        }""",
        lines,
    )
    assert shares == pytest.approx([0.0, 0.0, 0.5, 1.0, 1.0])
    assert words == "faint 110 ms, medium 125 ms, strong 25.00 s and more"
    only = "scaleOf({ steps: [[0, 0]], seconds: [[null]] }, 0).words"
    assert page.evaluate(only) == "faint 0 s, strong 0 s and more"


def test_a_job_without_loss_or_gain_is_shown_no_unknown_figures_of_them(
    straggling: Process, visitor: Visitor
) -> None:
    page = evaluated(straggling, visitor)
    facts, gain = page.evaluate(
        """async () => {
            const view = await (await fetch("/v1/jobs/" + job)).json();
            drawFacts({ ...view, loss_first: null, loss_last: null, tokens_per_second: null });
            drawWhatIf(view.what_if.map(each => ({ ...each, faster_ratio: 0, device_hours: 0 })));
            return ["facts", "what-if"].map(id => document.getElementById(id).textContent);
        }"""
    )
    assert "loss" not in facts and "tokens" not in facts
    assert "No rank held the others up" in gain and "0 s" not in gain


@pytest.mark.parametrize(
    ("ended", "job_state", "words"),
    [
        ("interrupt", "interrupted", "ended"),
        (None, "interrupted", "ended"),
        ("finish", "running", "ended"),
        (None, "running", "gone"),
        ("failure", "failed", "gone"),
    ],
)
def test_only_a_rank_that_ended_unasked_stands_out(
    straggling: Process, visitor: Visitor, ended: str | None, job_state: str, words: str
) -> None:
    page = evaluated(straggling, visitor)
    text, marked = page.evaluate(
        """async ([ended, state, gone]) => {
            const view = await (await fetch("/v1/jobs/" + job)).json();
            const rank = { ...view.ranks[0], ended, process_state: gone };
            drawPhases({ ...view, state, ranks: [rank] });
            const name = document.querySelector("#phases text");
            return [name.textContent, name.classList.contains("anomalous")];
        }""",
        [ended, job_state, int(ProcessState.GONE)],
    )
    assert text == f"rank 0 · stage 0 · {words}"
    assert marked == (words == "gone")
