"""A flight recorder's dump is read whatever it holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.agent.stalls import flight

from .workers import JSON


def entry(seq: int, group: str = "0", **changes: object) -> dict[str, object]:
    return {"collective_seq_id": seq, "process_group": [group, "default_pg"], "is_p2p": False,
            "profiling_name": "gloo:all_reduce", "input_sizes": [[10, 2], [3]],
            "state": "scheduled", **changes}  # fmt: skip


def test_the_newest_entries_of_each_group_are_kept_in_order() -> None:
    raw = [entry(seq, group) for seq in range(1, 41) for group in ("0", "5")]
    status = {"0": {"last_enqueued_collective": "40", "last_completed_collective": "39"}}
    recording = flight.parse(json.dumps({"entries": raw, "pg_status": status}).encode())
    assert (recording.enqueued, recording.completed) == (40, 39)
    for group in ("0 default_pg", "5 default_pg"):
        numbers = [entry.collective_seq for entry in recording.entries if entry.group == group]
        assert numbers == list(range(25, 41))
    assert (recording.entries[0].op, recording.entries[0].sizes) == ("all_reduce", "10,2;3")


def test_sends_and_what_is_no_entry_are_left_out() -> None:
    raw = [entry(1, is_p2p=True), entry(-1), 7, {}, entry(2, process_group=[]), entry(3)]
    raw[3:3] = [{"entries": [[]]}, None]
    recording = flight.parse(json.dumps({"entries": raw, "pg_status": [1]}).encode())
    assert [entry.collective_seq for entry in recording.entries] == [3]
    assert (recording.enqueued, recording.completed) == (-1, -1)


def test_sibling_groups_of_one_name_differ_by_their_members() -> None:
    def label(ranks: object, desc: str = "mesh_tp") -> str:
        raw = entry(1, process_group=["3", "mesh_tp"])
        config = {"3": {"name": "3", "desc": desc, "ranks": ranks}}
        return (
            flight.parse(json.dumps({"entries": [raw], "pg_config": config}).encode())
            .entries[0]
            .group
        )

    assert label("[0, 1]") == "3 mesh_tp [0,1]"
    many = [label(str(list(range(first, 64, 2)))) for first in (0, 1)]
    assert many[0] != many[1] and all(name.endswith("]") and len(name) <= 32 for name in many)
    assert label(None) == label([0]) == label("[0, 1]", "mesh_dp") == "3 mesh_tp"


def test_gloos_entries_have_completed_once_torch_retires_them() -> None:
    """torch says `scheduled` of all of Gloo's, and `retired` of those that have ended."""
    raw = [entry(1, retired=True), entry(2, retired=False), entry(3)]
    recording = flight.parse(json.dumps({"entries": raw}).encode())
    assert [entry.state for entry in recording.entries] == ["completed", "scheduled", "scheduled"]


def status(enqueued: int, completed: int) -> bytes:
    """What NCCL's recorder answers without entries: numbers as text."""
    numbers = {
        "last_enqueued_collective": str(enqueued),
        "last_started_collective": "-1",
        "last_completed_collective": str(completed),
    }
    other_numbers = {name: "7" for name in numbers}
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return json.dumps(
        {"pg_status": {"0": numbers, "1": other_numbers}, "pg_config": config}
    ).encode()


@pytest.mark.parametrize(
    ("enqueued", "completed", "expected"),
    [
        (54, 54, [(54, "completed")]),
        (54, 53, [(54, "scheduled")]),
        (57, 53, [(54, "scheduled"), (57, "scheduled")]),
        (3, -1, [(1, "scheduled"), (3, "scheduled")]),
        (-1, -1, []),
    ],
)
def test_nccls_recorder_says_how_far_all_ranks_came(
    enqueued: int, completed: int, expected: list[tuple[int, str]]
) -> None:
    recording = flight.parse_nccl(status(enqueued, completed))
    assert [(entry.collective_seq, entry.state) for entry in recording.entries] == expected
    assert {(entry.group, entry.op) for entry in recording.entries} <= {("0 nccl", "collective")}
    assert (recording.enqueued, recording.completed) == (enqueued, completed)


def test_both_recorders_are_kept_and_nccls_numbers_count() -> None:
    torch_recording = flight.parse(json.dumps({"entries": [entry(1)], "pg_status": {}}).encode())
    recording = flight.merged(flight.parse_nccl(status(8, 8)), torch_recording)
    groups = [(entry.group, entry.collective_seq) for entry in recording.entries]
    assert groups == [("0 default_pg", 1), ("0 nccl", 8)]
    assert (recording.enqueued, recording.completed) == (8, 8)


def test_where_nccl_saw_nothing_the_others_numbers_count() -> None:
    numbers = {"0": {"last_enqueued_collective": "2", "last_completed_collective": "1"}}
    torch_recording = flight.parse(
        json.dumps({"entries": [entry(1)], "pg_status": numbers}).encode()
    )
    recording = flight.merged(flight.parse_nccl(status(-1, -1)), torch_recording)
    assert (recording.enqueued, recording.completed) == (2, 1)


def test_a_recorder_that_saw_nothing_has_no_entries() -> None:
    """What torch 2.11 answers before the first collective."""
    body = b'{"comm_lib_version":"","nccl_comm_state":{},"pg_config":{},"pg_status":{}}'
    assert flight.parse(body) == flight.Flight()


_KEYS = ("collective_seq_id", "process_group", "is_p2p", "profiling_name", "input_sizes", "state")


@given(st.lists(st.fixed_dictionaries({}, optional={key: JSON for key in _KEYS}) | JSON), JSON)
def test_any_json_is_read_or_refused(entries: list[object], status: object) -> None:
    document = {"entries": entries, "pg_status": status, "pg_config": status}
    recording = flight.parse(json.dumps(document).encode())
    assert len(recording.entries) <= len(entries)
