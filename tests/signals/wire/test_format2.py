"""Format 2 changed its records twice under one number; segments of all three layouts are read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from stepwatch.signals import wire
from stepwatch.signals.records import Kind

FOLDER = Path(__file__).parents[2] / "data" / "formats"


@pytest.mark.parametrize("name", ["2-first", "2-second", "2"])
def test_segments_of_every_writer_are_read(name: str) -> None:
    tables = wire.decode((FOLDER / f"segment-{name}.seg").read_bytes()).tables
    written = json.loads((FOLDER / f"segment-{name}.json").read_text())["tables"]
    states, host = written[str(int(Kind.RANK_STATE))], written[str(int(Kind.HOST))]
    assert tables[Kind.RANK_STATE]["world"].tolist() == states["world"]
    assert tables[Kind.HOST]["memory_total_bytes"].tolist() == host["memory_total_bytes"]


def test_a_field_that_an_earlier_writer_did_not_have_is_unknown() -> None:
    tables = wire.decode((FOLDER / "segment-2-first.seg").read_bytes()).tables
    assert set(tables[Kind.RANK_STATE]["exit_code"]) == {-1}
    assert np.isnan(tables[Kind.RANK_STATE]["major_faults"]).all()
    assert np.isnan(tables[Kind.HOST]["neighbour_cpu_ratio"]).all()
