"""Print the table: `python -m tests.hangs.table [--real] [--processes N]`.

Synthetic records go through the real collector on a simulated clock: the full product. With
`--real`, real ranks on Gloo play chosen rows, with a real agent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor

from . import made, real
from .rows import Answer, Kind, Row, faults, rows

_WIDTH = 66


def printed(played: Iterable[tuple[Row, Answer]]) -> int:
    """Print each row and the number of wrong answers; return that number."""
    print(f"{'row':{_WIDTH}}  incident    page  what is wrong")
    wrong, counts = 0, dict.fromkeys(Kind, 0)
    for row, answer in played:
        problems = faults(row, answer)
        wrong, counts[row.kind] = wrong + bool(problems), counts[row.kind] + 1
        times = "".join(f"{_seconds(seconds):>8}  " for seconds in (answer.incident, answer.page))
        notes = [f"beside it: {incident}" for incident in answer.other_incidents]
        print(f"{row.name:{_WIDTH}}{times}  {'; '.join([*problems, *notes])}".rstrip(), flush=True)
    print(", ".join(f"{kind}: n = {count}" for kind, count in counts.items() if count))
    print(f"wrong: {wrong}")
    return wrong


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} s"


def main(words: list[str]) -> int:
    """Print the table; return 1 if an answer is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hangs.table", description=__doc__)
    parser.add_argument("--real", action="store_true", help="play chosen rows by real ranks")
    parser.add_argument("--processes", type=int, default=1, help="rows of made records at a time")
    options = parser.parse_args(words)
    if options.real:
        return int(printed(real.played()) > 0)
    every = [*rows()]
    with ProcessPoolExecutor(options.processes) as pool:
        return int(printed(zip(every, pool.map(made.answer_of, every), strict=True)) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
