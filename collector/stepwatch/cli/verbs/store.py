"""`stepwatch store`: how large a store is, what it need not keep, whether it is sound, its copy."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepwatch.cli import text
from stepwatch.collector.quantities import size as bytes_text
from stepwatch.signals.clock import NANOSECONDS
from stepwatch.signals.errors import StoreError, UsageError

if TYPE_CHECKING:
    from stepwatch.collector.store import Store
    from stepwatch.collector.store.upkeep.compaction import Compaction
    from stepwatch.collector.store.upkeep.counts import Done
    from stepwatch.collector.store.upkeep.payloads import Payloads
    from stepwatch.collector.store.upkeep.removal import Keep, Removed

EXAMPLE = "stepwatch store prune --dry-run --keep-segments 7 --store /var/lib/stepwatch/store.db"
FOREVER, NEVER = "forever", "never"
SHOWN_JOBS = 20
"""Jobs and problems that a person is shown; `--json` has all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions, each with its options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, action in ACTIONS.items():
        made = actions.add_parser(
            name,
            description=action.what,
            help=action.what,
            epilog=f"example: stepwatch store {name} {action.example}",
            allow_abbrev=False,
        )
        if name in ("backup", "restore"):
            made.add_argument("file", type=Path, help="the backup, which is an SQLite store itself")
        if name in ("compact", "verify"):
            add_payloads_argument(made)
        if name == "verify":
            made.add_argument(
                "--repair",
                action="store_true",
                help="remove objects in PLACE that no bundle refers to, a day after they were made",
            )
        if name == "migrate":
            made.add_argument("--to", required=True, metavar="SCHEMA", help="number of the schema")
            made.add_argument("--dry-run", action="store_true", help="do it and take it back")
        if name == "prune":
            made.add_argument("--dry-run", action="store_true", help="only say what would go")
            add_keep_arguments(made)
        made.add_argument(
            "--store",
            default="stepwatch.db",
            help="SQLite file, or postgresql+psycopg://USER@HOST/NAME",
        )
        made.add_argument("--json", action="store_true", help="print JSON")


def add_keep_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare how long each class of data is kept."""
    for name, default, what in (
        ("segments", 14.0, "what agents sent"),
        ("slices", None, "good and total seconds of each SLI"),
        ("incidents", None, "incidents that are resolved"),
        ("pinned", 90.0, "what agents sent around a kept incident"),
    ):
        shown = FOREVER if default is None else f"{default:.0f}"
        parser.add_argument(
            f"--keep-{name}",
            type=days,
            default=default,
            metavar="DAYS",
            help=f"{what}: days after the job last wrote, or {FOREVER} [{shown}]",
        )


def add_compaction_argument(parser: argparse.ArgumentParser) -> None:
    """Declare when segments are put together."""
    parser.add_argument(
        "--compact-after",
        type=minutes,
        default=10.0,
        metavar="MINUTES",
        help=f"age from which segments are put together in bundles, or {NEVER} [10]",
    )
    add_payloads_argument(parser)


def add_payloads_argument(parser: argparse.ArgumentParser) -> None:
    """Declare where bundles go."""
    parser.add_argument(
        "--payloads",
        metavar="PLACE",
        help="directory, or s3://BUCKET/PREFIX, for bundles of segments [the database]",
    )


def payloads_of(store: Store, arguments: argparse.Namespace) -> Payloads | None:
    """Where the options let bundles go; None: into the database.

    Raises:
        StoreError: nothing that is installed reads and writes objects there.
    """
    from stepwatch.collector.store.upkeep.payloads import Payloads

    return None if arguments.payloads is None else Payloads(store.engine, arguments.payloads)


def minutes(words: str) -> float | None:
    """A number of minutes; None for never.

    Raises:
        ArgumentTypeError: it is neither a number from 1 on nor `never`.
    """
    if words == NEVER:
        return None
    try:
        number = float(words)
    except ValueError:
        number = math.nan
    if not 1 <= number <= 52_560_000:
        raise argparse.ArgumentTypeError(f"{words!r} must be 1 minute or more, or {NEVER}")
    return number


def compaction_of(arguments: argparse.Namespace) -> Compaction:
    """When the options let segments be put together."""
    from stepwatch.collector.store.upkeep.compaction import Compaction

    after = arguments.compact_after
    return Compaction(None if after is None else 60.0 * after)


def days(words: str) -> float | None:
    """A number of days; None for ever.

    Raises:
        ArgumentTypeError: it is neither a number from 1 on nor `forever`.
    """
    if words == FOREVER:
        return None
    try:
        number = float(words)
    except ValueError:
        number = math.nan
    if not 1 <= number <= 36500:
        raise argparse.ArgumentTypeError(f"{words!r} must be from 1 to 36500 days, or {FOREVER}")
    return number


def keep_of(arguments: argparse.Namespace) -> Keep:
    """How long the options let each class of data be kept."""
    from stepwatch.collector.store.upkeep.removal import Keep

    return Keep(
        arguments.keep_segments,
        arguments.keep_slices,
        arguments.keep_incidents,
        arguments.keep_pinned,
    )


def run(arguments: argparse.Namespace) -> int:
    """Do one thing with a store; exit 1 if it is damaged, or does not answer."""
    import sqlalchemy as sa

    from stepwatch.collector.store.outage import reason_of
    from stepwatch.collector.web.server import open_store

    is_new = "://" not in arguments.store and not Path(arguments.store).is_file()
    if is_new and arguments.action != "restore":
        raise UsageError(f"there is no store {arguments.store}; pass --store")
    if arguments.action == "migrate":  # opening a store brings it up to date
        return _migrate(arguments)
    opened = open_store(arguments.store)
    try:
        act = ACTIONS[arguments.action].act
        assert act is not None, "it was done above"
        return act(opened, arguments)
    except (sa.exc.SQLAlchemyError, OSError) as error:
        reason = reason_of(error) if isinstance(error, sa.exc.SQLAlchemyError) else str(error)
        raise StoreError(f"cannot {arguments.action} the store: {reason}") from error
    finally:
        opened.close()


def _size(store: Store, arguments: argparse.Namespace) -> int:
    from stepwatch.collector.store.upkeep.removal import Keep
    from stepwatch.collector.store.upkeep.retention import Retention, summary
    from stepwatch.collector.store.upkeep.sizes import size_of

    size, done = size_of(store.engine), store.upkeep.stored()
    pinned = Retention(store.engine).pinned(Keep(), time.time_ns())
    if arguments.json:
        kinds = {name: kind._asdict() for name, kind in size.kinds.items()}
        jobs = [job._asdict() for job in size.jobs]
        upkeep = [each._asdict() for each in done]
        return _print_json(
            {
                **size._asdict(),
                "kinds": kinds,
                "jobs": jobs,
                "upkeep": upkeep,
                "pinned": [each._asdict() for each in pinned],
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
    _print_more(len(lines), "jobs")
    _print_pinned(pinned, summary)
    if done:
        print(text.table(["done", "what", "rows", "bytes", "last"], list(map(_done_row, done))))
    return 0


def _done_row(done: Done) -> list[str]:
    counts = [str(done.rows), bytes_text(done.bytes)] if done.kind else ["", ""]
    return [done.task, done.kind, *counts, text.clock(done.last_ns / NANOSECONDS)]


def _prune(store: Store, arguments: argparse.Namespace) -> int:
    from stepwatch.collector.store.upkeep.retention import Retention, summary

    retention, now_ns = Retention(store.engine, upkeep=store.upkeep), time.time_ns()
    change = retention.plan if arguments.dry_run else retention.prune
    removed = change(keep_of(arguments), now_ns)
    pinned = retention.pinned(keep_of(arguments), now_ns)
    if arguments.json:
        document = {"dry_run": arguments.dry_run, "removed": [each._asdict() for each in removed]}
        return _print_json({**document, "pinned": [each._asdict() for each in pinned]})
    verb = "would remove" if arguments.dry_run else "removed"
    print(f"{verb} {summary(removed)}" if removed else "nothing to remove")
    rows = [[item.job, item.kind, str(item.rows), bytes_text(item.bytes)] for item in removed]
    if rows:
        print(text.table(["job", "what", "rows", "bytes"], rows[:SHOWN_JOBS]))
        _print_more(len(rows), "rows")
    _print_pinned(pinned, summary)
    return 0


def _print_pinned(pinned: list[Removed], summary: Callable[[list[Removed]], str]) -> None:
    if pinned:
        print(f"kept for incidents: {summary(pinned)}")


def _compact(store: Store, arguments: argparse.Namespace) -> int:
    from stepwatch.collector.store.upkeep.compaction import Compaction, Compactor

    payloads = payloads_of(store, arguments)
    compactor = Compactor(store.engine, lambda _: False, store.upkeep, payloads)
    made = compactor.compact(Compaction(0.0, 0.0), time.time_ns())
    if arguments.json:
        return _print_json(made._asdict())
    before, after = bytes_text(made.bytes_before), bytes_text(made.bytes_after)
    said = f"put {made.segments} segments of {before} into {made.bundles} bundles of {after}"
    print(said if made.segments else "nothing to put together")
    return 0


def _verify(store: Store, arguments: argparse.Namespace) -> int:
    from stepwatch.collector.store.upkeep.checks import problems

    found, payloads = list(problems(store.engine)), payloads_of(store, arguments)
    if arguments.repair and payloads is None:
        raise UsageError("--repair needs --payloads: it removes what nothing refers to there")
    if payloads is not None and arguments.repair:
        if payloads.remove_orphans(time.time()) is None:
            raise StoreError("a collector puts segments together just now; run it again")
    elif payloads is not None:
        orphans = payloads.orphans(time.time())
        found += [f"no bundle refers to the object {each.url}" for each in orphans]
    if arguments.json:
        _print_json({"problems": found})
    else:
        print("\n".join(found[:SHOWN_JOBS]) if found else "nothing is damaged")
        _print_more(len(found), "problems")
    return int(bool(found))


def _backup(store: Store, arguments: argparse.Namespace) -> int:
    from stepwatch.collector.store.upkeep.copies import back_up

    return _print_copied(back_up(store.engine, arguments.file), arguments)


def _restore(store: Store, arguments: argparse.Namespace) -> int:
    from stepwatch.collector.store.upkeep.copies import restore

    return _print_copied(restore(arguments.file, store.engine), arguments)


def _migrate(arguments: argparse.Namespace) -> int:
    from stepwatch.collector.store.migrations.moving import move

    place = arguments.store if "://" in arguments.store else f"sqlite:///{arguments.store}"
    moved = move(place, arguments.to, dry_run=arguments.dry_run)
    if arguments.json:
        return _print_json({**moved._asdict(), "dry_run": arguments.dry_run})
    verb = "would move" if arguments.dry_run else "moved"
    if moved.found == moved.to:
        print(f"the store has schema {moved.to} already")
    else:
        print(f"{verb} the store from schema {moved.found} to {moved.to}, {moved.seconds:.1f} s")
    return 0


def _print_copied(rows: dict[str, int], arguments: argparse.Namespace) -> int:
    if arguments.json:
        return _print_json({"rows": rows})
    words = ", ".join(f"{table} {count}" for table, count in rows.items() if count)
    print(f"rows copied: {words or 'none, the store is empty'}")
    return 0


def _print_json(document: dict[str, Any]) -> int:
    print(json.dumps(document, indent=1))
    return 0


def _print_more(count: int, what: str) -> None:
    if count > SHOWN_JOBS:
        print(f"... and {count - SHOWN_JOBS} more {what}; --json has all")


class Action(NamedTuple):
    """One thing to do with a store: what it is, an example's options, and the function."""

    what: str
    example: str
    act: Callable[[Store, argparse.Namespace], int] | None


_EXAMPLE_STORE = "--store /var/lib/stepwatch/store.db"
ACTIONS = {
    "size": Action("rows and bytes by kind of data and by job", _EXAMPLE_STORE, _size),
    "prune": Action(
        "remove what need not be kept; a collector does it by itself every hour",
        f"--dry-run --keep-segments 7 {_EXAMPLE_STORE}",
        _prune,
    ),
    "compact": Action(
        "put together all segments that snapshots include; a collector does it by itself",
        _EXAMPLE_STORE,
        _compact,
    ),
    "verify": Action(
        "read every byte and check it; exit 1 if some are damaged", _EXAMPLE_STORE, _verify
    ),
    "backup": Action(
        "copy the store to a file, also while a collector writes",
        f"monday.db {_EXAMPLE_STORE}",
        _backup,
    ),
    "migrate": Action(
        "move a store that nobody uses to another schema, for another release",
        f"--to 2 --dry-run {_EXAMPLE_STORE}",
        None,
    ),
    "restore": Action(
        "copy a backup into a store that has no jobs, of either database",
        "monday.db --store postgresql+psycopg://stepwatch@db/stepwatch",
        _restore,
    ),
}
