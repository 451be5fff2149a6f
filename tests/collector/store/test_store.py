"""What is damaged in a store hides nothing else of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.signals import names
from tests.collector.exported import metric
from tests.collector.made import JOB, HandClock


@pytest.mark.parametrize("damaged", [b'{"id": "ab', b'{"id": "\xff"}', b"[]", b""])
def test_a_damaged_incident_hides_no_other(
    store: Store, tmp_path: Path, damaged: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    common = {"job": JOB, "kind": "hang", "state": "open", "opened_at": 1.0}
    documents = [{"id": name, **common} for name in ("good", "damaged")]
    store.save_evaluation(JOB, [], documents)
    with sqlite3.connect(tmp_path / "store.db") as connection:
        change = "update incident set document = cast(? as text) where id = 'damaged'"
        connection.execute(change, (damaged,))
    connection.close()
    assert store.incidents.newest(JOB) == store.incidents.newest() == documents[:1]
    assert (store.incidents.one("good"), store.incidents.one("damaged")) == (documents[0], None)
    assert "damaged" in caplog.text
    assert store.incidents.unreadable == {"damaged"}, "read twice, counted once"
    exported = metric(Service(store, HandClock()), names.COLLECTOR_UNREADABLE_INCIDENTS)
    assert exported == 1
