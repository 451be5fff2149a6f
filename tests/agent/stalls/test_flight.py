"""A flight recorder's dump is read whatever it holds."""

from __future__ import annotations

import json

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
    found = flight.parse(json.dumps({"entries": raw, "pg_status": status}).encode())
    assert (found.enqueued, found.completed) == (40, 39)
    for group in ("0 default_pg", "5 default_pg"):
        numbers = [each.collective_seq for each in found.entries if each.group == group]
        assert numbers == list(range(25, 41))
    assert (found.entries[0].op, found.entries[0].sizes) == ("all_reduce", "10,2;3")


def test_sends_and_what_is_no_entry_are_left_out() -> None:
    raw = [entry(1, is_p2p=True), entry(-1), 7, {}, entry(2, process_group=[]), entry(3)]
    raw[3:3] = [{"entries": [[]]}, None]
    found = flight.parse(json.dumps({"entries": raw, "pg_status": [1]}).encode())
    assert [each.collective_seq for each in found.entries] == [3]
    assert (found.enqueued, found.completed) == (-1, -1)


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
    assert many[0] != many[1] and all(each.endswith("]") and len(each) <= 32 for each in many)
    assert label(None) == label([0]) == label("[0, 1]", "mesh_dp") == "3 mesh_tp"


def read(*seqs: int, group: str = "0", last: int = -1) -> flight.Flight:
    status = {"0": {"last_enqueued_collective": last, "last_completed_collective": last}}
    entries = [entry(seq, group) for seq in seqs]
    return flight.parse(json.dumps({"entries": entries, "pg_status": status}).encode())


def test_of_two_recorders_the_first_counts_where_both_know_a_group() -> None:
    found = flight.merged(read(7, 8, last=8), read(1, last=1))
    assert [each.collective_seq for each in found.entries] == [7, 8]
    assert (found.enqueued, found.completed) == (8, 8)


def test_a_group_of_one_recorder_is_kept_and_so_are_the_numbers_that_are_known() -> None:
    found = flight.merged(read(7, group="5"), read(1, last=1))
    assert [(each.group[0], each.collective_seq) for each in found.entries] == [("5", 7), ("0", 1)]
    assert (found.enqueued, found.completed) == (1, 1)


def test_a_recorder_that_saw_nothing_has_no_entries() -> None:
    """What torch 2.11 answers before the first collective."""
    body = b'{"comm_lib_version":"","nccl_comm_state":{},"pg_config":{},"pg_status":{}}'
    assert flight.parse(body) == flight.Flight()


_KEYS = ("collective_seq_id", "process_group", "is_p2p", "profiling_name", "input_sizes", "state")


@given(st.lists(st.fixed_dictionaries({}, optional={key: JSON for key in _KEYS}) | JSON), JSON)
def test_any_json_is_read_or_refused(entries: list[object], status: object) -> None:
    document = {"entries": entries, "pg_status": status, "pg_config": status}
    found = flight.parse(json.dumps(document).encode())
    assert len(found.entries) <= len(entries)
