"""Store size, and actions that reduce it."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from stepwatch.cli import text
from stepwatch.cli.store.options import keep_of, payloads_of
from stepwatch.cli.store.printing import SHOWN_JOBS, print_json, print_more, print_pinned
from stepwatch.collector.quantities import size as bytes_text
from stepwatch.signals.clock import NANOSECONDS

if TYPE_CHECKING:
    from stepwatch.collector.store import Store
    from stepwatch.collector.store.upkeep.counts import Done


def show_size(store: Store, arguments: argparse.Namespace) -> int:
    """Print a store's size."""
    from stepwatch.collector.store.upkeep.removal import Keep
    from stepwatch.collector.store.upkeep.retention import Retention, summary
    from stepwatch.collector.store.upkeep.sizes import size_of

    size, records = size_of(store.engine), store.upkeep.stored()
    pinned = Retention(store.engine).pinned(Keep(), time.time_ns())
    if arguments.json:
        kinds = {name: kind._asdict() for name, kind in size.kinds.items()}
        jobs = [job._asdict() for job in size.jobs]
        upkeep = [record._asdict() for record in records]
        return print_json(
            {
                **size._asdict(),
                "kinds": kinds,
                "jobs": jobs,
                "upkeep": upkeep,
                "pinned": [row._asdict() for row in pinned],
            }
        )
    free = "" if size.free_bytes is None else f", {bytes_text(size.free_bytes)} of it free"
    print(f"{bytes_text(size.bytes)} in all{free}")
    rows = [[name, str(kind.rows), bytes_text(kind.bytes)] for name, kind in size.kinds.items()]
    print(text.table(["kind", "rows", "bytes"], rows))
    lines = [
        [
            *(job.job, str(job.segments), str(job.records), bytes_text(job.bytes)),
            text.clock(job.last_received_ns / NANOSECONDS),
        ]
        for job in size.jobs
    ]
    print(text.table(["job", "segments", "records", "bytes", "last wrote"], lines[:SHOWN_JOBS]))
    print_more(len(lines), "jobs")
    print_pinned(pinned, summary)
    if records:
        print(text.table(["done", "what", "rows", "bytes", "last"], list(map(_done_row, records))))
    return 0


def _done_row(record: Done) -> list[str]:
    counts = [str(record.rows), bytes_text(record.bytes)] if record.kind else ["", ""]
    return [record.task, record.kind, *counts, text.clock(record.last_ns / NANOSECONDS)]


def prune(store: Store, arguments: argparse.Namespace) -> int:
    """Remove expired data, or print the removals of a dry run."""
    from stepwatch.collector.store.upkeep.retention import Retention, summary

    retention, now_ns = Retention(store.engine, upkeep=store.upkeep), time.time_ns()
    change = retention.plan if arguments.dry_run else retention.prune
    removed = change(keep_of(arguments), now_ns)
    pinned = retention.pinned(keep_of(arguments), now_ns)
    if arguments.json:
        document = {"dry_run": arguments.dry_run, "removed": [row._asdict() for row in removed]}
        return print_json({**document, "pinned": [row._asdict() for row in pinned]})
    verb = "would remove" if arguments.dry_run else "removed"
    print(f"{verb} {summary(removed)}" if removed else "nothing to remove")
    rows = [[item.job, item.kind, str(item.rows), bytes_text(item.bytes)] for item in removed]
    if rows:
        print(text.table(["job", "what", "rows", "bytes"], rows[:SHOWN_JOBS]))
        print_more(len(rows), "rows")
    print_pinned(pinned, summary)
    return 0


def compact(store: Store, arguments: argparse.Namespace) -> int:
    """Compact all segments that snapshots include, and old slices."""
    from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor

    payloads = payloads_of(store, arguments)
    compactor = Compactor(store.engine, lambda _: False, store.upkeep, payloads)
    result = compactor.compact(Compaction(0.0, 0.0), time.time_ns())
    compactor.pack_slices()
    if arguments.json:
        return print_json(result._asdict())
    old_size, new_size = bytes_text(result.bytes_before), bytes_text(result.bytes_after)
    summary = (
        f"put {result.segments} segments of {old_size} into {result.bundles} bundles of {new_size}"
    )
    print(summary if result.segments else "nothing to put together")
    return 0
