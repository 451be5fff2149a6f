"""Every pattern finds its examples and nothing else, in time linear in the line's length."""

from __future__ import annotations

import re
import tomllib
from importlib import resources
from time import process_time
from typing import Any

import pytest

from stepwatch.signals import exits
from stepwatch.signals.exits import CATALOGUE, Weight, explain, telling

TEXT = resources.files(exits).joinpath("catalogue.toml").read_text(encoding="utf-8")
ITEMS: list[dict[str, Any]] = tomllib.loads(TEXT)["pattern"]
EXAMPLES = [(item["id"], line) for item in ITEMS for line in item["examples"]]
OTHERS = [line for item in ITEMS for line in item["others"]]
LOST = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
)


@pytest.mark.parametrize(("name", "line"), EXAMPLES)
def test_an_example_is_found_by_its_pattern_and_by_none_before_it(name: str, line: str) -> None:
    explanation = explain([line])
    assert explanation is not None and (explanation.pattern.id, explanation.line) == (name, line)
    prefixed = explain([f"[rank3]: {line}"])
    assert prefixed is None or prefixed.pattern.weight >= explanation.pattern.weight


@pytest.mark.parametrize("line", OTHERS)
def test_no_pattern_finds_what_only_looks_like_its_words(line: str) -> None:
    assert explain([line]) is None


def test_each_pattern_has_a_name_of_its_own_words_an_action_and_a_source() -> None:
    assert len({pattern.id for pattern in CATALOGUE}) == len(CATALOGUE)
    for pattern in CATALOGUE:
        assert pattern.words and pattern.action and pattern.source.startswith("https://"), (
            pattern.id
        )
        assert not re.search(r"(?<!\\)[*+]", pattern.expression.pattern), "a repeat without a bound"


def test_the_heaviest_line_counts_and_of_several_the_last() -> None:
    memory, assertion = "MemoryError", "AssertionError: no"
    explanation = explain([memory, "ValueError: x", assertion, LOST, "KeyError: 'y'"])
    assert explanation is not None and explanation.line == assertion
    symptom = explain(["ValueError: x", LOST, "KeyError: 'y'"])
    assert symptom is not None and symptom.pattern.weight is Weight.SYMPTOM
    general = explain(["ValueError: x", "KeyError: 'y'", "done"])
    assert general is not None and general.line == "KeyError: 'y'"


def test_what_is_sent_are_the_heaviest_lines_and_the_last() -> None:
    lines = ["ValueError: x", "MemoryError", "step 1", LOST, "KeyError: 'y'", "bye"]
    assert telling(lines, 3) == ["MemoryError", LOST, "bye"]
    assert telling(lines, 9) == [*lines[:2], *lines[3:]]
    assert telling(["step 1", "step 2"], 3) == ["step 2"]
    assert telling([], 3) == []


@pytest.mark.parametrize(
    "part",
    ["a", "DataLoader worker (pid 1, ", "Error ", "rank1", "[Errno ", "1, ", " ", "CANCELLED"],
)
def test_a_long_line_takes_no_long_time(part: str) -> None:
    line = part * (200_000 // len(part))
    began = process_time()
    for _ in range(10):
        explain([line])
    assert process_time() - began < 1.0
