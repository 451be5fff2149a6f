from __future__ import annotations

from pathlib import Path

from .results import append, read


def test_results_are_read_back_from_several_files_each_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    append(one, {"seed": 1, "pages": 0})
    append(one, {"seed": 3})
    append(other, {"seed": 3})
    append(other, {"seed": 3, "wanted": {"kind": "stop"}})
    found = read([one, other])
    assert [(each["seed"], "wanted" in each) for each in found] == [
        (1, False),
        (3, False),
        (3, True),
    ]
    assert read([tmp_path / "none.jsonl"]) == []


def test_a_line_that_was_not_written_to_its_end_costs_that_result_only(tmp_path: Path) -> None:
    file = tmp_path / "cut.jsonl"
    append(file, {"seed": 1})
    file.write_bytes(file.read_bytes() + b'{"seed": 3, "fau')
    append(file, {"seed": 5})
    assert [each["seed"] for each in read([file])] == [1, 5]
