"""What the agent's view of ranks says of the job."""

from __future__ import annotations

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.signals.records import Kind
from tests.collector.made import JOB, body, run_segments


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (b"production", "production"),
        (b"", ""),
        (b"\x1b[2Jproduction", ""),
        (b'a"} 1', ""),
        (b"<b>", ""),
        (b"\xff", ""),
    ],
)
def test_a_class_that_is_no_name_is_unknown(service: Service, sent: bytes, expected: str) -> None:
    (item,) = run_segments(5)
    item.tables[Kind.RANK_STATE]["job_class"] = sent
    service.receive(body([item]))
    service.evaluate()
    job_state = service.job(JOB)
    assert job_state is not None and job_state[0].current.job_class == expected
