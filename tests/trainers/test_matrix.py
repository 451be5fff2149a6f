"""The cells are those that users have, and the table shows the result of each."""

from __future__ import annotations

import json
import math
from pathlib import Path

from tests.trainers.cells import HALVES, cells, half_of
from tests.trainers.comparison import RIGHT, UNKNOWN, WRONG, Mark
from tests.trainers.programs.plan import VARIABLE, Plan
from tests.trainers.report import line, remarks, table
from tests.trainers.run import CellResult
from tests.trainers.test_comparison import truth
from tests.trainers.truth import same_numbers

CELLS = {cell.name: cell for cell in cells()}


def result(**marks: Mark) -> CellResult:
    return CellResult(CELLS["nanogpt-no-code"], dict(marks), 1.02, 121.0)


def test_a_cell_without_code_changes_the_command_and_not_the_program() -> None:
    cell = CELLS["transformers-no-code"]
    plan = cell.plan(Path("/f"), "healthy")
    assert plan.adapter == ""
    watched, plain = (cell.command(plan, watched=is_watched) for is_watched in (True, False))
    assert watched[1:] == ["run", "--job", "transformers-no-code-healthy", "--", *plain]
    adapted = CELLS["transformers-adapter"]
    assert adapted.plan(Path("/f"), "x").adapter == "callback"
    assert adapted.plan(Path("/f"), "x", watched=False).adapter == ""


def test_a_plan_survives_the_environment() -> None:
    plan = CELLS["picotron-pp2-lines"].plan(Path("/f"), "slow", fault="slow-rank")
    assert Plan(**json.loads(plan.variable()[VARIABLE])) == plan
    assert plan.axis == "pp"


def test_the_halves_are_all_cells() -> None:
    assert {half_of(cell) for cell in CELLS.values()} == set(HALVES)
    assert CELLS["single-lines"].faults == ("slow-loader",), "alone, nobody is slower than others"


def test_the_table_says_what_is_wrong_below_it() -> None:
    row = result(steps=Mark(RIGHT), quiet=Mark(WRONG, "hang -1 other unknown"))
    assert not row.right
    assert line(row) == "wrong: quiet  overhead 1.02"
    assert remarks(row) == ["nanogpt-no-code quiet: NO: hang -1 other unknown"]
    assert "1.02" in table([row]) and "121 s" in table([row])
    assert "ckpt-verified" not in table([row]), "the job that is killed did not run"
    both = row._replace(marks={**row.marks, "ckpt-verified": Mark(UNKNOWN, "written")})
    assert table([both]).count("trainer  launcher") == 2
    assert "quiet" not in table([both._replace(marks={"SLOs": Mark(RIGHT)})])
    broken = row._replace(marks={}, overhead=math.nan, problem="it does not end")
    assert not broken.right and "BROKEN" in line(broken)


def test_losses_must_agree_to_the_last_bit_on_every_rank() -> None:
    changed = truth(losses=[[(2.0).hex(), (3.0 + 2e-16 * 3).hex()]] * 4)
    assert same_numbers(truth(), truth())
    assert not same_numbers(truth(), changed)
    assert not same_numbers(truth(), {0: truth()[0]})
