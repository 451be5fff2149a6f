"""A DistributedDataParallel script without stepwatch, under `stepwatch run`."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.signals.records import Kind, Op

from .conftest import RUN, Launch, losses, tables_in, torchrun, verdicts

pytest.importorskip("torch", reason="the script trains with torch")
pytestmark = [
    pytest.mark.usefixtures("rings"),
    pytest.mark.long(
        "tests/adapters/test_run_verb.py::test_ranks_of_any_launcher_record_and_children_of_ranks_do_not",
        "tests/hooks/collectives/test_ddp.py::test_a_module_whose_backward_comes_later_keeps_its_wait",
        "tests/adapters/test_observer.py::test_an_evaluation_is_not_the_next_steps_forward",
    ),
]

RANKS, EPOCHS, STEPS, SLOW_RANK = 2, 2, 36, 1


def test_the_slow_rank_is_named_and_nothing_is_changed(
    tmp_path: Path, rings: Path, launch: Launch
) -> None:
    plain, watched = tmp_path / "plain", tmp_path / "watched"
    for folder, prefix in ((plain, []), (watched, [*RUN, "--job", "ddp", "--"])):
        folder.mkdir()
        script = torchrun(RANKS, "ddp.py", str(folder), str(EPOCHS))
        ended = launch(*prefix, *script, SLOW_RANK=str(SLOW_RANK))
        assert ended.returncode == 0, ended.stderr[-3000:]
    assert losses(watched, RANKS) == losses(plain, RANKS)

    tables = tables_in(rings / "ddp")
    assert sorted(tables) == list(range(RANKS))
    for rank in tables:
        steps = tables[rank][Kind.STEP]
        assert steps["step"].tolist() == list(range(STEPS))
        for name in ("data_ns", "forward_ns", "backward_ns", "optimizer_ns", "collective_ns"):
            assert (steps[name][1:] > 0).all(), name
        assert steps["microbatches"].tolist() == [1] * STEPS
        check_evaluation(steps)
        check_collectives(tables[rank])
    checkpoint_times = [int(tables[rank][Kind.STEP]["checkpoint_ns"].sum()) for rank in tables]
    assert checkpoint_times[0] > 0 and checkpoint_times[1] == 0, "rank 0 writes it"

    (finding,) = verdicts(tables)
    assert (finding.rank, finding.phase) == (SLOW_RANK, "forward")


def check_evaluation(steps) -> None:  # type: ignore[no-untyped-def]
    """An evaluation between two epochs is not a forward time of a step."""
    assert [int(row["step"]) for row in steps if row["eval_ns"]] == [STEPS // EPOCHS]


def check_collectives(rows) -> None:  # type: ignore[no-untyped-def]
    """DDP's reduction in each step, the buffers it broadcasts, and the script's own call."""
    collectives = rows[Kind.COLLECTIVE]
    reduced = collectives[collectives["op"] == Op.ALL_REDUCE]
    assert sorted(set(reduced["step"].tolist())) == list(range(STEPS))
    assert (reduced["bytes"] >= 4 * (32 * 64 + 64 * 8)).all()
    between = reduced[reduced["step"] == STEPS // EPOCHS]
    assert between["count"].sum() > reduced[reduced["step"] == 3]["count"].sum()
    assert len(collectives[collectives["op"] == Op.BROADCAST]) >= STEPS - 1
    assert {bytes(row["text"]) for row in rows[Kind.GROUP]} == {b"0,1"}
