"""A trace is self time by activity; a foreign or broken one is refused."""

from __future__ import annotations

import gzip
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.collector.analysis.profiles import compare, read_profile, sentence
from stepwatch.collector.analysis.profiles import trace as trace_module

from .traces import event, packed_trace, profile


def test_self_time_excludes_what_an_event_contains() -> None:
    events = [
        event("step.py(1): step", 0, 10, "python_function"),
        event("aten::linear", 2, 4),
        event("aten::addmm", 3, 3),
    ]
    times = {activity.name: seconds for activity, seconds in profile(events).host.items()}
    assert times == pytest.approx(
        {"step.py:1 step": 6e-3, "aten::linear": 1e-3, "aten::addmm": 3e-3}
    )


def test_times_are_per_step() -> None:
    made = profile([event("aten::mm", 0, 30)], steps=3, wall_ns=300_000_000, cpu_ns=240_000_000)
    assert (made.step_s, made.idle_s) == pytest.approx((0.1, 0.02))
    assert sum(made.host.values()) == pytest.approx(0.01)


def test_other_threads_count_their_operators_only() -> None:
    events = [
        event("aten::mm", 0, 10, tid=9),
        event("queue.py(1): get", 20, 70, "python_function", tid=9),
    ]
    assert {activity.name for activity in profile(events).host} == {"aten::mm"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no trace"),
        (b"\x1f\x8b", "no trace"),
        (b"junk", "no gzip"),
        (gzip.compress(b"[]"), "no trace"),
        (gzip.compress(b"{}"), "no trace that stepwatch asked for"),
        (gzip.compress(b"[" * 200_000), "no trace"),
        (gzip.compress(b'{"traceEvents": [], "stepwatch": {}}'), "invalid"),
        (packed_trace([], steps=True), "invalid"),
        (packed_trace([], wall_ns=1.5), "invalid"),
        (packed_trace([], rank=-2), "invalid"),
    ],
    ids=(
        *("empty", "two bytes", "junk", "a list", "no facts", "deep", "no numbers"),
        *("a boolean", "a fraction", "a negative rank"),
    ),
)
def test_foreign_traces_are_refused(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_profile(body)


def test_a_trace_without_the_steps_is_refused() -> None:
    facts = {"rank": 0, "first": 0, "steps": 1, "wall_ns": 1, "cpu_ns": 1}
    document = {"traceEvents": [event("aten::mm", 0, 1)], "stepwatch": facts}
    with pytest.raises(ValueError, match="none of the profiled steps"):
        read_profile(gzip.compress(json.dumps(document).encode()))


def test_a_small_file_that_unpacks_to_a_large_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trace_module, "MAX_TRACE_BYTES", 1 << 16)
    with pytest.raises(ValueError, match="unpacks to more"):
        read_profile(gzip.compress(bytes(1 << 20)))


def test_more_events_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_module, "MAX_EVENTS", 2)
    with pytest.raises(ValueError, match="events"):
        profile([event("aten::mm", 0, 1)] * 3)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
_EVENT = st.fixed_dictionaries(
    {},
    optional={
        "ph": st.sampled_from(["X", "M"]) | _JSON,
        "cat": st.sampled_from(["cpu_op", "kernel", "python_function", "user_annotation"]) | _JSON,
        "name": st.sampled_from(["aten::mm", "stepwatch: step 1", "nn.Module: A_0"]) | _JSON,
        "ts": st.floats(-10, 10) | _JSON,
        "dur": st.floats(-1, 10) | _JSON,
        "tid": st.integers(6, 8) | _JSON,
        "args": _JSON,
    },
)


@given(st.lists(_EVENT | _JSON, max_size=12))
def test_any_events_give_a_sentence(events: list[object]) -> None:
    made = profile(events)
    assert sentence(compare(made, profile([])))


@given(st.binary(max_size=64))
def test_any_bytes_are_refused_with_a_reason(body: bytes) -> None:
    for packed in (body, gzip.compress(body), zlib.compress(body)):
        with pytest.raises(ValueError, match="it "):
            read_profile(packed)
