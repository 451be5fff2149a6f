"""`stepwatch store`: a store's size, retention, integrity and copies."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from stepwatch.cli.store.moves import backup, migrate, restore_into
from stepwatch.cli.store.options import add_keep_arguments, add_payloads_argument
from stepwatch.cli.store.room import compact, prune, show_size
from stepwatch.cli.store.soundness import verify
from stepwatch.signals.errors import StoreError, UsageError
from stepwatch.signals.phrases import file_problem

if TYPE_CHECKING:
    from stepwatch.collector.store import Store

EXAMPLE = "stepwatch store prune --dry-run --keep-segments 7 --store /var/lib/stepwatch/store.db"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions, each with its options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, action in ACTIONS.items():
        action_parser = actions.add_parser(
            name,
            description=action.purpose,
            help=action.purpose,
            epilog=f"example: stepwatch store {name} {action.example}",
            allow_abbrev=False,
        )
        if name in ("backup", "restore"):
            action_parser.add_argument(
                "file", type=Path, help="the backup, which is an SQLite store itself"
            )
        if name in ("compact", "verify"):
            add_payloads_argument(action_parser)
        if name == "verify":
            action_parser.add_argument(
                "--repair",
                action="store_true",
                help="remove objects in PLACE that no bundle refers to, a day after they were made",
            )
        if name == "migrate":
            action_parser.add_argument(
                "--to", required=True, metavar="SCHEMA", help="number of the schema"
            )
            action_parser.add_argument(
                "--dry-run", action="store_true", help="do it and take it back"
            )
        if name == "prune":
            action_parser.add_argument(
                "--dry-run", action="store_true", help="only show the data to be removed"
            )
            add_keep_arguments(action_parser)
        action_parser.add_argument(
            "--store",
            default="stepwatch.db",
            help="SQLite file, or postgresql+psycopg://USER@HOST/NAME",
        )
        action_parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run one action on a store; exit 1 if it is damaged, or does not answer."""
    import sqlalchemy as sa

    from stepwatch.collector.store.outages.outage import reason_of
    from stepwatch.collector.web.server import open_store

    is_new = "://" not in arguments.store and not Path(arguments.store).is_file()
    if is_new and arguments.action != "restore":
        raise UsageError(f"there is no store {arguments.store}; pass --store")
    if arguments.action == "migrate":  # opening a store brings it up to date
        return migrate(arguments)
    opened = open_store(arguments.store)
    try:
        act = ACTIONS[arguments.action].act
        assert act is not None, "it was done above"
        return act(opened, arguments)
    except (sa.exc.SQLAlchemyError, OSError) as error:
        if isinstance(error, sa.exc.SQLAlchemyError):
            reason = reason_of(error)
        else:
            where = f"{error.filename}: " if error.filename else ""
            reason = f"{where}{file_problem(error)}"
        raise StoreError(f"cannot {arguments.action} the store: {reason}") from error
    finally:
        opened.close()


class Action(NamedTuple):
    """One action on a store: its purpose, an example's options, and the function."""

    purpose: str
    example: str
    act: Callable[[Store, argparse.Namespace], int] | None


_EXAMPLE_STORE = "--store /var/lib/stepwatch/store.db"
ACTIONS = {
    "size": Action("rows and bytes by kind of data and by job", _EXAMPLE_STORE, show_size),
    "prune": Action(
        "remove data past its retention; a collector does so every hour",
        f"--dry-run --keep-segments 7 {_EXAMPLE_STORE}",
        prune,
    ),
    "compact": Action(
        "put together all segments that snapshots include; a collector does it by itself",
        _EXAMPLE_STORE,
        compact,
    ),
    "verify": Action(
        "read every byte and check it; exit 1 if some are damaged", _EXAMPLE_STORE, verify
    ),
    "backup": Action(
        "copy the store to a file, also while a collector writes",
        f"monday.db {_EXAMPLE_STORE}",
        backup,
    ),
    "migrate": Action(
        "move a store without users to another schema, for another release",
        f"--to 1 --dry-run {_EXAMPLE_STORE}",
        None,
    ),
    "restore": Action(
        "copy a backup into a store that has no jobs, of either database",
        "monday.db --store postgresql+psycopg://stepwatch@db/stepwatch",
        restore_into,
    ),
}
