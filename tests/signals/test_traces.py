"""Trace ids say what a span is about, and nothing else does."""

from __future__ import annotations

import itertools

from stepwatch.signals import traces


def test_ids_are_a_pure_function_that_never_changes() -> None:
    # Written down: another version and the logs must find the same ids again.
    assert f"{traces.trace_id('job', 0, 812):032x}" == "115398d74ed81197236fcdeb04fb3d99"
    assert f"{traces.span_id('job', 0, 812, 5, 'step'):016x}" == "95e093d8cced7741"


def test_whatever_differs_gives_another_id() -> None:
    spans = {
        traces.span_id(*parts)
        for parts in itertools.product(
            ("a", "b"), (0, 1), (1, 2, 11, 12), (-1, 0, 1, 2), ("step", "data"), (0, 1)
        )
    }
    assert len(spans) == 2 * 2 * 4 * 4 * 2 * 2
    assert 0 not in spans
    assert traces.trace_id("a", 1, 1) != traces.trace_id("a1", 0, 1) != traces.trace_id("a", 11, 0)


def test_ids_have_the_widths_of_opentelemetry() -> None:
    for step in range(100):
        assert 0 < traces.trace_id("job", 0, step) < 1 << 128
        assert 0 < traces.span_id("job", 0, step, 0, "step") < 1 << 64
