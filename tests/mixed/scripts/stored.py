"""Prints (rank, step) of every STEP row in a store, with the code of its collector."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from stepwatch.collector.store import Store
from stepwatch.signals import wire
from stepwatch.signals.records import Kind


def main(path: Path, job: str) -> None:
    """Print a JSON list of pairs in the order stored."""
    store = Store.sqlite(path)
    found: list[tuple[int, int]] = []
    for stored in store.segments(job):
        payload = next(part for part in stored if isinstance(part, bytes))
        for row in wire.decode(payload).tables.get(Kind.STEP, ()):
            found.append((int(row["rank"]), int(row["step"])))
    store.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
