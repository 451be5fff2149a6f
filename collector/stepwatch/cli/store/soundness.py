"""Integrity check of a store."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from stepwatch.cli.store.options import payloads_of
from stepwatch.cli.store.printing import SHOWN_JOBS, print_json, print_more
from stepwatch.signals.errors import StoreError, UsageError

if TYPE_CHECKING:
    from stepwatch.collector.store import Store


def verify(store: Store, arguments: argparse.Namespace) -> int:
    """Read every byte and print all damage; return 1 if there is any."""
    from stepwatch.collector.store.upkeep.checks import problems

    damage, payloads = list(problems(store.engine)), payloads_of(store, arguments)
    if arguments.repair and payloads is None:
        raise UsageError("--repair needs --payloads: it removes unreferenced objects there")
    if payloads is not None and arguments.repair:
        if payloads.remove_orphans(time.time()) is None:
            raise StoreError("a collector puts segments together just now; run it again")
    elif payloads is not None:
        orphans = payloads.orphans(time.time())
        damage += [f"no bundle refers to the object {orphan.url}" for orphan in orphans]
    if arguments.json:
        print_json({"problems": damage})
    else:
        print("\n".join(damage[:SHOWN_JOBS]) if damage else "nothing is damaged")
        print_more(len(damage), "problems")
    return int(bool(damage))
