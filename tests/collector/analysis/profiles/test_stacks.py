"""Two ranks' sampled stacks: the function that takes more, and when there is too little to say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.analysis.profiles import compare_stacks, read_shares, stack_sentence

MAIN = "thread (0x7F): MainThread"
LOOP = "<module> (/home/ada/train.py:9)"
READ, STEP = "read (/home/ada/train.py:3)", "step (/home/ada/train.py:5)"
TORCH = "linear (/opt/lib/python3.11/site-packages/torch/nn/functional.py:12)"


def raw(*stacks: tuple[int, str]) -> str:
    return "".join(f"{MAIN};{LOOP};{frames} {count}\n" for count, frames in stacks)


def said(slow: str, peer: str) -> str:
    return stack_sentence(compare_stacks((1, read_shares(slow)), (0, read_shares(peer))))


def test_the_function_that_takes_more_is_named_by_its_share() -> None:
    slow, peer = raw((150, READ), (50, f"{STEP};{TORCH}")), raw((10, READ), (190, STEP))
    assert said(slow, peer) == "read (train.py:3) holds 75% of rank 1's time (peer 5%)"
    difference = compare_stacks((1, read_shares(slow)), (0, read_shares(peer)))
    assert [row.function for row in difference.rows] == ["read (train.py:3)", "step (train.py:5)"]


def test_a_library_counts_to_the_function_that_calls_it() -> None:
    shares = read_shares(raw((40, f"{STEP};{TORCH}"), (60, STEP)))
    assert dict(shares.functions) == {"step (train.py:5)": 100}
    alone = read_shares(f"{MAIN};{TORCH} 7")
    assert dict(alone.functions) == {"linear (functional.py:12)": 7}


def test_other_threads_do_not_count() -> None:
    other = f"thread (8): stepwatch-heartbeat;{LOOP};{READ} 500\n"
    assert read_shares(other + raw((60, STEP))).samples == 60


@pytest.mark.parametrize(
    ("slow", "peer", "words"),
    [
        (raw((40, READ)), raw((400, STEP)), "too few samples: 40 and 400"),
        ("", "", "too few samples: 0 and 0"),
        (raw((100, STEP)), raw((100, STEP)), "no function takes more"),
        (raw((55, READ), (45, STEP)), raw((45, READ), (55, STEP)), "no function takes more"),
        (raw((40, READ), (960, STEP)), raw((1000, STEP)), "no function takes more"),
    ],
    ids=("few", "none", "equal", "chance", "small"),
)
def test_too_little_is_no_verdict(slow: str, peer: str, words: str) -> None:
    assert said(slow, peer).startswith(words)
    assert compare_stacks((1, read_shares(slow)), (0, read_shares(peer))).clear == ()


@given(st.text(), st.text())
def test_any_text_is_read(slow: str, peer: str) -> None:
    assert said(slow, peer)
