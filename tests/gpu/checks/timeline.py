"""Device time of each phase by events, compared with torch.profiler (CUPTI)."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from stepwatch.hooks import Watch
from stepwatch.signals.records import PHASE_NAMES, Kind
from tests.gpu import profile
from tests.gpu.artefacts import keep
from tests.gpu.finding import Finding, is_within
from tests.gpu.model import batches, layers
from tests.gpu.place import Place
from tests.gpu.rings import finish, rows_of

WARM, STEPS = 8, 20
PHASES = ("data", "forward", "backward", "optimizer")
LATE_SECONDS = 0.02
TOLERANCE = 0.02
"""Tolerance of a phase, from section 6 of the design."""
_PREFIX = "phase:"
_LEAST_SECONDS = 2e-4
"""A shorter phase is a few kernels: there the gaps between them are more than two per cent."""


def check(place: Place) -> Iterator[Finding]:
    """Profile steps whose host runs ahead, then steps whose host is late in forward."""
    steps, trace = _profile_steps(place, "ahead", 0.0)
    yield from _check_early_host(place, steps, trace)
    steps, trace = _profile_steps(place, "late", LATE_SECONDS)
    yield from _check_late_host(place, steps, trace)


def _profile_steps(place: Place, job: str, late_seconds: float) -> tuple[Any, list[dict[str, Any]]]:
    """Device rows of the profiled steps, and the events of the profile."""
    from torch.profiler import ProfilerActivity, record_function
    from torch.profiler import profile as profiler

    model = layers(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    watch = Watch.from_env(job=job)
    watch.attach(model=model, optimizer=optimizer)
    pinned = list(batches(place, 2))
    number = 0

    def train_step() -> None:
        nonlocal number
        with watch.step() as step:

            def phase(name: str) -> Any:
                return record_function(f"{_PREFIX}{number}:{name}"), step.phase(name)

            mark, bucket = phase("data")
            with bucket, mark:
                batch = pinned[number % 2].to(place.kind, non_blocking=True)
            mark, bucket = phase("forward")
            with bucket, mark:
                time.sleep(late_seconds)
                loss = model(batch).float().square().mean()
            mark, bucket = phase("backward")
            with bucket, mark:
                loss.backward()
            mark, bucket = phase("optimizer")
            with bucket, mark:
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
        if late_seconds:
            place.wait()
        number += 1

    for _ in range(WARM):
        train_step()
    place.wait()
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if place.is_gpu else [])]
    with profiler(activities=activities) as profiling:
        place.spin(0.1)  # the host is ahead from the first step on, whatever the profiler costs it
        for _ in range(STEPS):
            train_step()
        place.wait()
    finish(watch, place)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiling.export_chrome_trace(str(path))
        events = profile.load(path)
        keep(path, f"{job}.json")
    rows = rows_of(job, Kind.DEVICE_STEP)
    return rows[rows["step"] >= WARM], events


def _truths(events: list[dict[str, Any]]) -> dict[str, profile.DeviceTime]:
    return profile.device_times(events, profile.marks_of(events, _PREFIX))


def _check_early_host(place: Place, rows: Any, events: list[dict[str, Any]]) -> Iterator[Finding]:
    truths = _truths(events)
    yield Finding(
        "steps that the device timed, of those profiled",
        f"{len(rows)} of {STEPS}",
        f"{STEPS}",
        len(rows) == STEPS if place.is_gpu else None,
    )
    for name in PHASES:
        ours, spans, busy = [], [], []
        for row in rows[1:]:
            truth = truths.get(f"{_PREFIX}{row['step']}:{name}")
            if truth is not None:
                ours.append(float(row[f"{name}_seconds"]))
                spans.append(truth.span)
                busy.append(truth.busy)
        if not ours:
            yield Finding(
                f"{name}: events beside the profiler",
                "unknown",
                holds=False if place.is_gpu else None,
            )
            continue
        ratios = np.array(ours) / np.array(spans)
        ratio, to_busy = sum(ours) / sum(spans), sum(ours) / sum(busy)
        worst = float(np.abs(ratios - 1.0).max())
        seconds = statistics.median(ours)
        yield Finding(
            f"{name}: device time by events / by the profiler",
            f"{ratio:.4f} (worst step {worst:.2%} off), {to_busy:.4f} of the sum of its kernels; "
            f"{seconds * 1e3:.3f} ms",
            f"1 within {TOLERANCE:.0%}",
            is_within(ratio, TOLERANCE) if seconds >= _LEAST_SECONDS else None,
            {"ratio": ratio, "worst_off": worst, "to_kernels": to_busy, "seconds": seconds},
        )
    if not len(rows):
        return
    parts = sum(rows[f"{name}_seconds"] for name in PHASE_NAMES)
    ratio = float((parts + rows["collective_seconds"] + rows["pipeline_wait_seconds"]).sum())
    total = float(rows["duration_seconds"].sum())
    yield Finding(
        "parts of a step / its length", f"{ratio / total:.6f}", "1", is_within(ratio / total, 1e-4)
    )
    idle = sum(float(rows[f"{name}_idle_seconds"].sum()) for name in PHASES)
    lead = statistics.median(rows["host_lead_seconds"].tolist())
    yield Finding(
        "device idle while the host runs ahead",
        f"{idle / total:.4%}, host ahead by {lead * 1e3:.1f} ms",
        "below 0.1 %",
        idle / total < 1e-3,
        {"idle_share": idle / total, "host_lead_seconds": lead},
    )


def _check_late_host(place: Place, rows: Any, events: list[dict[str, Any]]) -> Iterator[Finding]:
    """The device is idle until the first kernel arrives. The hooks cannot know that moment: the
    host's time for the following launches counts as idle, too."""
    truths, ours, gaps, launching = _truths(events), 0.0, 0.0, 0.0
    for row in rows[1:]:
        truth = truths.get(f"{_PREFIX}{row['step']}:forward")
        if truth is not None:
            ours += float(row["forward_idle_seconds"])
            gaps += truth.begins - truth.previous_end
            launching += truth.launching
    if not gaps:
        yield Finding("a late host: idle", "unknown", holds=False if place.is_gpu else None)
        return
    most = 1.0 + launching / gaps + TOLERANCE
    errors = rows["clock_error_seconds"]
    yield Finding(
        "a late host: idle time of forward by events / by the profiler",
        f"{ours / gaps:.4f}; host late by {LATE_SECONDS * 1e3:.0f} ms, then launches for "
        f"{launching / (len(rows) - 1) * 1e3:.2f} ms",
        f"{1 - TOLERANCE:.2f} to {most:.2f}, launches included",
        1.0 - TOLERANCE <= ours / gaps <= most,
        {"ratio": ours / gaps, "launching_share": launching / gaps},
    )
    middle, worst = float(np.nanmedian(errors)), float(np.nanmax(errors))
    yield Finding(
        "where the device's clock lies on the host's: stated error",
        f"{middle * 1e6:.1f} µs, at most {worst * 1e6:.1f} µs",
        "below 1 ms",
        worst < 1e-3,
        {"median_seconds": middle},
    )
