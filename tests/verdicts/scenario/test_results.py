from __future__ import annotations

from pathlib import Path

from .results import append, read


def test_results_are_read_back_from_several_files_each_once(tmp_path: Path) -> None:
    first_file, second_file = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    append(first_file, {"seed": 1, "pages": 0})
    append(first_file, {"seed": 3})
    append(second_file, {"seed": 3})
    append(second_file, {"seed": 3, "wanted": {"kind": "stop"}})
    results = read([first_file, second_file])
    assert [(result["seed"], "wanted" in result) for result in results] == [
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
    assert [result["seed"] for result in read([file])] == [1, 5]
