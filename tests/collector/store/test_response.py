"""Silences and notes: bounded, audited, over by the database's clock, on both databases."""

from __future__ import annotations

import pytest

from stepwatch.collector.store import Store
from stepwatch.collector.store.response import Notes, Silences, Wanted, response_of, silences
from stepwatch.collector.store.response import notes as noting
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import StoreError

LLAMA = Wanted("llama", "", "", "new firmware", "ada", 60.0)


class Time:
    """The database's clock, which the test turns."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def __call__(self, _: object) -> int:
        return int(self.seconds * NANOSECONDS)


def test_a_silence_is_over_by_the_clock_of_the_database(opened: Store) -> None:
    clock = Time()
    box = Silences(opened.engine, clock)
    silence = box.add(LLAMA)
    assert (silence.until - silence.since, silence.by, silence.expired_by) == (60.0, "ada", "")
    assert box.in_force() == [silence] == [box.get(silence.id)]
    clock.seconds += 59.0
    assert box.in_force() == [silence]
    clock.seconds += 1.0
    assert box.in_force() == []
    ended = box.expire(silence.id, "bob")
    assert ended == silence, "what is over stays as it was"
    assert box.between(silence.since + 30.0, silence.since + 40.0) == [silence]
    assert box.between(silence.until + 1.0, silence.until + 2.0) == []
    assert box.expire("nobody", "bob") is None


def test_who_ended_a_silence_and_when_is_kept(opened: Store) -> None:
    clock = Time()
    box = Silences(opened.engine, clock)
    silence = box.add(LLAMA)
    clock.seconds += 10.0
    ended = box.expire(silence.id, "bob")
    assert ended is not None and ended == box.get(silence.id)
    assert (ended.until - ended.since, ended.expired_by) == (10.0, "bob")
    assert box.in_force() == []


def test_silences_are_bounded(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silences, "MOST_IN_FORCE", 2)
    added_silences = [opened.silences.add(LLAMA) for _ in range(2)]
    with pytest.raises(StoreError, match="2 silences are in force; expire some"):
        opened.silences.add(LLAMA)
    opened.silences.expire(added_silences[0].id, "ada")
    opened.silences.add(LLAMA)


def test_old_silences_go(opened: Store) -> None:
    clock = Time()
    box = Silences(opened.engine, clock)
    old = box.add(LLAMA)
    clock.seconds += (silences.KEPT_DAYS + 1) * 86_400.0
    new = box.add(LLAMA)
    assert box.between(0.0, clock.seconds + 1.0) == [new] and box.get(old.id) is None


def test_a_silence_covers_what_has_all_that_it_names(opened: Store) -> None:
    incident = {"job": "llama", "node": "gpu-01", "kind": "hang"}
    for wanted, covers in (
        (LLAMA, True),
        (LLAMA._replace(kind="hang"), True),
        (LLAMA._replace(kind="straggler"), False),
        (LLAMA._replace(job="", node="gpu-01"), True),
        (LLAMA._replace(job="llama-2"), False),
        (LLAMA._replace(job=""), False),
    ):
        assert opened.silences.add(wanted).covers(incident) is covers


def test_what_people_did_follows_from_their_notes(opened: Store) -> None:
    clock = Time()
    box = Notes(opened.engine, clock)
    for event, author, text in (
        ("acknowledged", "ada", ""),
        ("assigned", "ada", "bob"),
        ("mitigated", "bob", "drained gpu-01"),
        ("comment", "bob", "disk ordered"),
    ):
        box.add("one", "llama", event, author, text)
        clock.seconds += 1.0
    box.add("two", "other", "comment", "ada", "hm")
    (notes,) = box.of_job("llama").values()
    assert box.of_incidents(["one", "nobody"]) == {"one": notes} and len(notes) == 4
    response = response_of(notes)
    assert response["acknowledged"] == {"by": "ada", "at": clock.seconds - 4.0}
    assert response["mitigated"]["by"] == response["owner"] == "bob"
    box.add("one", "llama", "reopened", "ada", "")
    response = response_of(box.of_incidents(["one"])["one"])
    assert response["acknowledged"] is None and response["mitigated"] is None
    assert response["owner"] == "bob" and len(response["notes"]) == 5


def test_notes_are_bounded(opened: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noting, "MOST_NOTES", 1)
    opened.notes.add("one", "llama", "comment", "ada", "x")
    with pytest.raises(StoreError, match="incident one has 1 notes"):
        opened.notes.add("one", "llama", "comment", "ada", "x")
