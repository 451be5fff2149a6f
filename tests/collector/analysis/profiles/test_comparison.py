"""The comparison names the activities that account for a slow rank's excess."""

from __future__ import annotations

from typing import Any

import pytest

from stepwatch.collector.analysis.profiles import Pattern, Profile, compare, sentence
from stepwatch.collector.analysis.profiles.activities import ActivityKind

from .traces import event, profile

OPERATORS = {
    "aten::mm": 20.0,
    "aten::add": 10.0,
    "aten::gelu": 8.0,
    "aten::div": 6.0,
    "aten::sum": 4.0,
}
COLLECTION = "stepwatch: garbage collection"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def operators(*, category: str = "cpu_op", begin: float = 0.0, **factors: float) -> list[Any]:
    """Return the usual operators one after another, some slower by a factor."""
    events, now = [], begin
    for name, length in OPERATORS.items():
        length *= factors.get(name.removeprefix("aten::"), factors.get("every", 1.0))
        events.append(event(name, now, length, category))
        now += length
    return events


def said(slow: list[Any], peer: list[Any] | None = None, **facts: Any) -> str:
    return sentence(compare(profile(slow, rank=1, **facts), healthy(peer)))


def healthy(events: list[Any] | None = None) -> Profile:
    return profile(operators() if events is None else events)


def test_one_operator_is_named_with_its_module_and_code() -> None:
    def events(mm: float) -> list[Any]:
        return [
            event("train.py(30): train", 0, 28 + 20 * mm, "python_function"),
            event("nn.Module: Block_7", 0, 28 + 20 * mm, "python_function"),
            event("nn.Module: MLP_7", 0, 28 + 20 * mm, "python_function"),
            *operators(mm=mm),
        ]

    words = "aten::mm 2.1x, 100 % of the excess, in Block_7/MLP_7 (train.py:30 train)"
    assert said(events(2.1), events(1.0)) == words


def test_a_backward_operator_has_its_forwards_module() -> None:
    forward = {"Sequence number": 3, "Fwd thread id": 0}
    backward = {"Sequence number": 3, "Fwd thread id": 1}

    def events(seconds: float) -> list[Any]:
        return [
            event("nn.Module: Block_7", 0, 10, "python_function"),
            event("aten::linear", 0, 9, args=forward),
            event("LinearBackward0", 20, seconds, args=backward, tid=8),
            event("aten::mm", 20, seconds, tid=8),
        ]

    assert said(events(60), events(20)) == "aten::mm 3.0x, 100 % of the excess, in Block_7"


def test_all_operators_slower_by_one_factor_are_the_processor() -> None:
    assert said(operators(every=1.9)) == "the same operators, each 1.9x: the processor"


def test_all_kernels_slower_by_one_factor_are_the_device() -> None:
    slow = operators(every=1.9, category="kernel")
    assert said(slow, operators(category="kernel")) == "the same kernels, each 1.9x: the device"


def test_more_calls_of_one_operator_are_no_slow_processor() -> None:
    more = [event("aten::mm", 100 + 20 * index, 20) for index in range(3)]
    slow = [*operators(every=1.04), *more]
    assert said(slow).startswith("aten::mm 4.0x, 98 % of the excess")


def test_one_slow_kernel_is_no_slow_device() -> None:
    slow, peer = operators(mm=2.0, category="kernel"), operators(category="kernel")
    assert said(slow, peer) == "aten::mm 2.0x, 100 % of the excess"


def test_a_garbage_collection_is_named_wherever_it_runs() -> None:
    slow = [
        *operators(),
        event("stepwatch/hooks/profiles/session.py(103): _mark", 60, 1, "python_function"),
        event(COLLECTION, 60.5, 30, "user_annotation"),
        event("model.py(3): __del__", 70, 5, "python_function"),
    ]
    expected = "garbage collection takes 30 ms a step (peer 0 ms), 100 % of the excess"
    assert said(slow) == expected


def test_a_slow_loader_is_named_with_all_that_it_calls() -> None:
    slow = [
        *operators(),
        event(LOADER, 50, 40, "user_annotation"),
        event("data.py(3): __getitem__", 50, 35, "python_function"),
        event("aten::stack", 86, 4),
    ]
    peer = [*operators(), event(LOADER, 50, 2, "user_annotation")]
    assert said(slow, peer) == (
        "DataLoader.__next__ takes 40 ms a step (peer 2 ms), 100 % of the excess"
    )


def test_a_wait_in_python_is_named_with_its_function() -> None:
    slow = [*operators(), event("train.py(12): read_shared", 60, 30, "python_function")]
    words = said(slow, cpu_ns=50_000_000)
    assert words == (
        "train.py:12 read_shared takes 30 ms a step (peer 0 ms), 100 % of the excess "
        "(waits: a lock, I/O or sleep)"
    )
    assert "(Python outside operators)" in said(slow)


def test_waits_for_other_ranks_and_the_device_are_no_excess() -> None:
    for name in ("gloo:all_reduce", "c10d::allreduce_", "cudaStreamSynchronize"):
        category = "cuda_runtime" if name.startswith("cuda") else "cpu_op"
        slow = [*operators(), event(name, 60, 30, category)]
        assert "no excess over rank 0" in said(slow)
    kernel = [*operators(category="kernel"), event("ncclDevKernel_AllReduce", 60, 30, "kernel")]
    assert "no excess over rank 0" in said(kernel, operators(category="kernel"))


def test_the_hooks_own_time_is_no_excess() -> None:
    slow = [*operators(), event("stepwatch/hooks/steps.py(60): end", 60, 30, "python_function")]
    assert "no excess over rank 0" in said(slow)


def test_two_equal_ranks_have_no_excess() -> None:
    comparison = compare(profile(operators(), rank=1), healthy())
    assert comparison.pattern is Pattern.NONE
    assert comparison.rows == ()


def test_spread_excess_names_the_largest_parts() -> None:
    slow = operators(mm=1.2, gelu=1.6, div=1.5, sum=1.8, add=1.0)
    assert said(slow) == (
        "no single operator explains the excess of 15 ms a step; the largest parts: "
        "aten::gelu 4.8 ms, aten::mm 4 ms, aten::sum 3.2 ms"
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<built-in method acquire of _thread.lock object at 0x7f00>", "acquire of _thread.lock"),
        ("<built-in function sum>", "sum"),
        ("/home/me/project/train.py(12): step", "project/train.py:12 step"),
    ],
)
def test_python_functions_have_short_names(name: str, shown: str) -> None:
    made = profile([event(name, 0, 50, "python_function")])
    (activity,) = made.host
    assert (activity.kind, activity.name) == (ActivityKind.FUNCTION, shown)
