from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.verdicts.scenario.examples import with_fault
from tests.verdicts.scenario.plan import FaultKind

from .cpu import Burners, Quota, burners_of, quota_of

FAULT = with_fault(FaultKind.SLOW_COMPUTE, 2, effect=2.0).faults[0]
PIDS = [100, 101, 102, 103]


def test_who_computes_a_seventh_of_his_time_gets_less_than_that_to_be_slow() -> None:
    assert quota_of(1.0) == pytest.approx(1.0)
    assert quota_of(2.0) == pytest.approx(0.13, abs=0.005)


@pytest.mark.parametrize(
    ("version", "file", "limit"), [(1, "cpu.cfs_quota_us", "13043"), (2, "cpu.max", "13043 100000")]
)
def test_the_kernel_gets_a_limit_for_the_slow_rank_only(
    tmp_path: Path, version: int, file: str, limit: str
) -> None:
    if version == 1:
        (tmp_path / "cpu").mkdir()
    quota = Quota("job", tmp_path)
    quota.begin(FAULT, PIDS)
    assert (quota.folder / file).read_text() == limit
    assert (quota.folder / "cgroup.procs").read_text() == "102"


def test_burners_share_the_processor_of_their_rank_and_end_with_the_run() -> None:
    pinned: list[tuple[int, set[int]]] = []
    burners = Burners(lambda *call: pinned.append(call))
    burners.begin(replace(FAULT, effect=1.1), PIDS)
    burners.close()
    (rank, processor), (burner, burner_processor) = pinned
    assert rank == 102
    assert processor == burner_processor
    assert not Path(f"/proc/{burner}").exists()
    assert burners_of(2.0) == 2
