"""The table shows both clocks, the drawn rank with its peers, and the verdicts of each clock."""

from __future__ import annotations

import numpy as np

from tests.collector.detect.windows import window
from tests.verdicts.cases import Case, Draw
from tests.verdicts.device.cases import FAULTY
from tests.verdicts.device.compare import SHOWN, Compared, figures, name_verdicts, rows
from tests.verdicts.device.replay import Replayed
from tests.verdicts.run import Ran
from tests.verdicts.scoring import Outcome, Verdict

DRAW = Draw("device-slow-clock", 0)
CASE = Case(DRAW.name, DRAW.seed, *FAULTY[DRAW.name](DRAW))
SLOW = Verdict("straggler", DRAW.rank, "forward", "slow-compute", 10.0)


def test_figures_are_those_since_the_fault() -> None:
    steps = window(steps=2 * DRAW.step, ranks=4, first_step=0)
    forward = steps.planes["forward"]
    forward[:] = 0.05
    forward[DRAW.step :, DRAW.rank] = 0.1
    assert figures(steps, DRAW)[SHOWN.index("forward")] == "100/50"
    forward[:] = np.nan
    assert figures(steps, DRAW)[SHOWN.index("forward")] == "-/-"


def test_a_window_that_ends_before_the_fault_has_no_figures() -> None:
    steps = window(steps=DRAW.step, ranks=4, first_step=0)
    assert figures(steps, DRAW) == ["no step", *[""] * (len(SHOWN) - 1)]


def test_each_clock_has_a_line() -> None:
    steps = window(steps=40, ranks=4, first_step=0)
    ran = Ran(CASE, Outcome(CASE.truth, 1.0, (SLOW,)), 0.1, 9.0, "")
    host, device = rows(Compared(ran, Replayed([], steps), Replayed([], steps)))
    assert host[:3] == [f"{CASE.name}, rank {DRAW.rank}", "host", "nothing"]
    assert device[:3] == ["", "device", f"straggler rank {DRAW.rank} forward slow-compute"]


def test_incidents_are_named_in_their_order_and_without_a_rank_that_is_none() -> None:
    hang = Verdict("hang", -1, "", "device-stuck", 5.0)
    assert name_verdicts((SLOW, hang)).startswith("hang device-stuck; straggler rank")
