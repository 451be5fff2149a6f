"""Copy a store, or move it to another schema."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from stepwatch.cli.store.printing import print_json

if TYPE_CHECKING:
    from stepwatch.collector.store import Store


def backup(store: Store, arguments: argparse.Namespace) -> int:
    """Copy the store to a file."""
    from stepwatch.collector.store.upkeep.copies import back_up

    return _print_copied(back_up(store.engine, arguments.file), arguments)


def restore_into(store: Store, arguments: argparse.Namespace) -> int:
    """Copy a backup into the store."""
    from stepwatch.collector.store.upkeep.copies import restore

    return _print_copied(restore(arguments.file, store.engine), arguments)


def migrate(arguments: argparse.Namespace) -> int:
    """Move the store to another schema, or report whether that works."""
    from stepwatch.collector.store.migrations.moving import move

    place = arguments.store if "://" in arguments.store else f"sqlite:///{arguments.store}"
    moved = move(place, arguments.to, dry_run=arguments.dry_run)
    if arguments.json:
        return print_json({**moved._asdict(), "dry_run": arguments.dry_run})
    verb = "would move" if arguments.dry_run else "moved"
    if moved.old_schema == moved.new_schema:
        print(f"the store has schema {moved.new_schema} already")
    else:
        schemas = f"schema {moved.old_schema} to {moved.new_schema}"
        print(f"{verb} the store from {schemas}, {moved.seconds:.1f} s")
    return 0


def _print_copied(rows: dict[str, int], arguments: argparse.Namespace) -> int:
    if arguments.json:
        return print_json({"rows": rows})
    words = ", ".join(f"{table} {count}" for table, count in rows.items() if count)
    print(f"rows copied: {words or 'none, the store is empty'}")
    return 0
