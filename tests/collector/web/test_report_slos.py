"""SLOs in a report: sums over jobs beside adding slices up one by one, and who jobs belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwatch.collector.slo.asked.site import Objectives, Planned
from stepwatch.collector.slo.asked.windows import RollingWindow
from stepwatch.collector.slo.objectives import Slo
from stepwatch.collector.store import Store
from stepwatch.collector.store.accounts import AccountDay
from stepwatch.collector.store.slices import Slice
from stepwatch.collector.web.report_slos import MOST_PARTS, part_edges, slo_lines
from stepwatch.signals.arrays import Matrix

DAY = 86_400
FIRST = 20_000 * DAY
GOODPUT = Slo("goodput", "", "goodput", Decimal("0.9"), RollingWindow(28 * DAY))
SLICES = st.lists(
    st.tuples(
        st.integers(-50, 3 * DAY // 10), st.integers(0, 40), st.sampled_from([0.0, 0.5, 1.0])
    ),
    max_size=30,
    unique_by=lambda part: part[0],
)
SPANS = st.lists(st.tuples(st.integers(0, 3 * DAY), st.integers(1, DAY)), max_size=2)


def slices_of(parts: Sequence[tuple[int, int, float]]) -> list[Slice]:
    slices, good, total = [], 0.0, 0.0
    for place, seconds, share in sorted(parts):
        good, total = good + seconds * share, total + seconds
        start = FIRST + place * 10
        slices.append(Slice(start, 1, seconds * share, seconds, 1, 1, good, total))
    return slices


@settings(max_examples=60, deadline=None)
@given(st.lists(SLICES, min_size=1, max_size=4), SPANS)
def test_every_class_and_part_is_the_sum_of_its_slices(
    tmp_path_factory: pytest.TempPathFactory,
    histories: list[list[tuple[int, int, float]]],
    spans: list[tuple[int, int]],
) -> None:
    store = Store.sqlite(tmp_path_factory.mktemp("slos") / "store.db")
    every = {f"job-{number}": slices_of(parts) for number, parts in enumerate(histories)}
    for job, slices in every.items():
        days = [AccountDay(job, FIRST, "a", {"steps": 1})]
        store.save_evaluation(job, [("goodput", part) for part in slices], [], days=days)
    planned = tuple(
        Planned(FIRST + offset_s, FIRST + offset_s + seconds, "", frozenset({"a"}))
        for offset_s, seconds in spans
    )
    objectives = Objectives({"goodput": GOODPUT}, planned=planned)
    names = [*every]
    classes = {"a": names[::2], "b": names[1::2]}
    lines = slo_lines(
        objectives,
        classes,
        FIRST,
        FIRST + 3 * DAY,
        lambda sli, moments: store.slice_sums(sli, moments, FIRST),
    )
    store.close()
    assert [line["job_class"] for line in lines] == ["a", "b", None]
    for line in lines:
        jobs = names if line["job_class"] is None else classes[line["job_class"]]
        for number, part in enumerate(line["trend"]):
            begins = FIRST + number * DAY
            inside = [
                time_slice
                for job in jobs
                for time_slice in every[job]
                if begins <= time_slice.start_s < begins + DAY
                if job in classes["b"]
                or not any(
                    offset_s <= time_slice.start_s - FIRST < offset_s + long
                    for offset_s, long in spans
                )
            ]
            good, total = (
                sum(getattr(time_slice, name) for time_slice in inside)
                for name in ("good", "total")
            )
            expected = None if total == 0 else pytest.approx(good / total, abs=1e-6)
            assert part == {"from": begins, "good_ratio": expected}


def test_an_hour_of_many_devices_weighs_more_than_one_of_few() -> None:
    """A job on one device that is all good, one on 1,000 of which a tenth is: no average of the
    two, 0.55, but what devices did."""

    def sums(sli: str, moments: Sequence[int]) -> Mapping[str, Matrix]:
        is_second_day = np.array([moment >= FIRST + DAY for moment in moments], dtype=float)[
            :, None
        ]
        return {
            "small": is_second_day * [3600.0, 3600.0],
            "large": is_second_day * [360_000.0, 3_600_000.0],
        }

    objectives = Objectives({"goodput": GOODPUT})
    (line,) = slo_lines(objectives, {"a": ["small", "large"]}, FIRST, FIRST + 2 * DAY, sums)
    assert line["good_ratio"] == pytest.approx(0.1009, abs=1e-4)
    assert line["lost_device_seconds"] == pytest.approx(3_240_000.0)
    assert line["trend"][1]["good_ratio"] is None, "nothing ran: neither good nor bad"


@pytest.mark.parametrize(("days", "parts"), [(1, 1), (7, 7), (14, 14), (30, 10), (3660, 14)])
def test_a_long_time_has_few_parts(days: int, parts: int) -> None:
    edges = part_edges(FIRST, FIRST + days * DAY)
    assert len(edges) == parts + 1 and parts <= MOST_PARTS
    assert edges[0] == FIRST and edges[-1] == FIRST + days * DAY
