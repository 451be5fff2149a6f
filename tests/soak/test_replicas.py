"""The checks of replicas can fail: two writers in an epoch, a late takeover, a lost notice."""

from __future__ import annotations

import pytest

from tests.soak import audit
from tests.soak.audit import Disturbance, Write
from tests.soak.replicas import delivered_once
from tests.soak.webhook import Receiver

EPOCH_WRITES = [Write(1.0, "incident", "a", 1), Write(2.0, "sli_slice", "a", 1)]


def test_two_writers_in_one_epoch_are_noticed() -> None:
    writes = [*EPOCH_WRITES, Write(9.0, "incident", "b", 2)]
    assert audit.one_writer_an_epoch(writes).holds
    for wrong in (Write(9.5, "snapshot", "a", 2), Write(9.5, "snapshot", "a", None)):
        assert not audit.one_writer_an_epoch([*writes, wrong]).holds
    assert not audit.one_writer_an_epoch([]).holds


@pytest.mark.parametrize(("time_s", "holds"), [(14.0, True), (30.0, False)])
def test_a_late_takeover_is_noticed(time_s: float, holds: bool) -> None:
    writes = [*EPOCH_WRITES, Write(time_s, "incident", "b", 2)]
    assert audit.takeovers(writes, [Disturbance("stopped", "a", 3.0)]).holds is holds
    assert audit.takeovers(writes, [Disturbance("stopped", "b", 3.0)]).holds


def test_a_notice_that_is_lost_or_says_something_else_is_noticed() -> None:
    receiver = Receiver()
    try:
        for _ in range(2):
            answers = [receiver.take(key, key.encode()) for key in ("one", "two")]
        assert answers == [200, 200] and receiver.refusals == {"one"}
        assert delivered_once(["one", "two"], receiver).holds
        assert not delivered_once(["one", "two", "three"], receiver).holds
        assert not delivered_once(["one"], receiver).holds
        receiver.take("two", b"other")
        assert not delivered_once(["one", "two"], receiver).holds
    finally:
        receiver.close()
