"""Store options shared by several verbs: data retention and the location for bundles."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwatch.collector.store import Store
    from stepwatch.collector.store.upkeep.compaction import Compaction
    from stepwatch.collector.store.upkeep.payloads import Payloads
    from stepwatch.collector.store.upkeep.removal import Keep

FOREVER, NEVER = "forever", "never"


def add_keep_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the retention for each class of data."""
    for name, default, purpose in (
        ("segments", 14.0, "what agents sent"),
        ("slices", None, "good and total seconds of each SLI"),
        ("incidents", None, "incidents that are resolved"),
        ("pinned", 90.0, "segments around a kept incident"),
    ):
        shown = FOREVER if default is None else f"{default:.0f}"
        parser.add_argument(
            f"--keep-{name}",
            type=days,
            default=default,
            metavar="DAYS",
            help=f"{purpose}: days after the job last wrote, or {FOREVER} [{shown}]",
        )


def add_compaction_argument(parser: argparse.ArgumentParser) -> None:
    """Declare when segments are compacted into bundles."""
    parser.add_argument(
        "--compact-after",
        type=minutes,
        default=10.0,
        metavar="MINUTES",
        help=f"age from which segments are put together in bundles, or {NEVER} [10]",
    )
    add_payloads_argument(parser)


def add_payloads_argument(parser: argparse.ArgumentParser) -> None:
    """Declare the location for bundles."""
    parser.add_argument(
        "--payloads",
        metavar="PLACE",
        help="directory, or s3://BUCKET/PREFIX, for bundles of segments [the database]",
    )


def payloads_of(store: Store, arguments: argparse.Namespace) -> Payloads | None:
    """Return the location for bundles; None: the database.

    Raises:
        StoreError: no installed package reads and writes objects there.
    """
    from stepwatch.collector.store.upkeep.payloads import Payloads

    return None if arguments.payloads is None else Payloads(store.engine, arguments.payloads)


def number_in(words: str) -> float:
    """Return an option's number; NaN if it is not a number."""
    try:
        return float(words)
    except ValueError:
        return math.nan


def minutes(words: str) -> float | None:
    """Return a number of minutes; None for never.

    Raises:
        ArgumentTypeError: it is neither a number from 1 up nor `never`.
    """
    if words == NEVER:
        return None
    number = number_in(words)
    if not 1 <= number <= 52_560_000:
        raise argparse.ArgumentTypeError(f"{words!r} must be 1 minute or more, or {NEVER}")
    return number


def compaction_of(arguments: argparse.Namespace) -> Compaction:
    """Return when segments are compacted, according to the options."""
    from stepwatch.collector.store.upkeep.compaction import Compaction

    age_minutes = arguments.compact_after
    return Compaction(None if age_minutes is None else 60.0 * age_minutes)


def days(words: str) -> float | None:
    """Return a number of days; None for forever.

    Raises:
        ArgumentTypeError: it is neither a number from 1 up nor `forever`.
    """
    if words == FOREVER:
        return None
    number = number_in(words)
    if not 1 <= number <= 36500:
        raise argparse.ArgumentTypeError(f"{words!r} must be from 1 to 36500 days, or {FOREVER}")
    return number


def keep_of(arguments: argparse.Namespace) -> Keep:
    """Return the retention for each class of data, according to the options."""
    from stepwatch.collector.store.upkeep.removal import Keep

    return Keep(
        arguments.keep_segments,
        arguments.keep_slices,
        arguments.keep_incidents,
        arguments.keep_pinned,
    )
