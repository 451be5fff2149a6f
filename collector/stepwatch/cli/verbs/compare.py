"""`stepwatch compare`: two runs, which is faster or cheaper, and what changed; exit 1 if slower."""

from __future__ import annotations

import argparse
import json
import math
import os
from pathlib import Path
from typing import Any

from stepwatch.cli.compare.comparison import comparison
from stepwatch.cli.compare.pace import Verdict
from stepwatch.cli.compare.shown import comparison_text
from stepwatch.cli.source import add_source_arguments, ask, component
from stepwatch.collector.slo.asked.rates import read_rates
from stepwatch.signals import places
from stepwatch.signals.errors import UsageError

EXAMPLE = "stepwatch compare baseline.json llama-7b --bound 0.03"

_MOST_BYTES = 64 << 20
_NEEDED = (
    ("job", str),
    ("job_class", str),
    ("attempt", int),
    ("state", str),
    ("began_at", int | float),
    ("world_size", int),
    ("blocks", list),
    ("phase_shares", dict),
    ("slis", dict),
    ("incidents", dict),
    ("facts", dict),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("base", metavar="RUN", help="a job, or a file that --save wrote")
    parser.add_argument("new", metavar="RUN", nargs="?", help="the run to compare with it")
    parser.add_argument(
        "--bound",
        type=_bound,
        default=0.05,
        metavar="SHARE",
        help="how much slower is a regression [0.05]",
    )
    parser.add_argument(
        "--rates",
        type=Path,
        default=os.environ.get(places.ENV_RATES),
        metavar="FILE",
        help=f"rate card in TOML: compare tokens for the money [{places.ENV_RATES}]",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write the last named run, to compare with later"
    )
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print; exit 1 on a regression, and where it is unclear whether there is one."""
    if arguments.new is None and arguments.save is None:
        raise UsageError("name a second run, or pass --save FILE")
    card = None if arguments.rates is None else read_rates(Path(arguments.rates))
    found = [_read(arguments, name) for name in (arguments.base, arguments.new) if name is not None]
    if arguments.save is not None:
        _save(arguments.save, found[-1])
    if arguments.new is None:
        print(f"{arguments.save}: job {found[-1]['job']}, attempt {found[-1]['attempt']}")
        return 0
    compared = comparison(found[0], found[1], arguments.bound, card)
    print(json.dumps(compared, indent=1) if arguments.json else comparison_text(compared))
    return int(compared["verdict"] != Verdict.NO_REGRESSION)


def _bound(words: str) -> float:
    try:
        share = float(words.removesuffix("%")) / (100 if words.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        problem = f"{words[:40]!r} is no share; write one such as 0.05, or 5%"
        raise argparse.ArgumentTypeError(problem)
    return share


def _read(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """A run that was saved, or a job's newest."""
    path = Path(name)
    if path.suffix != ".json" and not path.is_file():
        found: dict[str, Any] = ask(arguments, f"/v1/jobs/{component(name, 'job')}/run")
        return found
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path}: larger than {_MOST_BYTES >> 20} MiB; it is no run")
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; write it with --save") from error
    except ValueError as error:
        raise UsageError(f"{path}: no JSON; write it with --save") from error
    _check(found, path)
    return found


def _check(found: Any, path: Path) -> None:
    """Whether a file holds a run.

    Raises:
        UsageError: it does not.
    """
    if not isinstance(found, dict):
        raise UsageError(f"{path}: holds no run; write it with --save")
    wrong = [name for name, kind in _NEEDED if not isinstance(found.get(name), kind)]
    wrong = wrong or [
        name
        for name, is_right in (
            ("blocks", all(map(_is_block, found["blocks"]))),
            ("phase_shares", all(map(_is_number, found["phase_shares"].values()))),
            ("incidents", all(map(_is_number, found["incidents"].values()))),
            ("facts", all(isinstance(each, str) for each in found["facts"].values())),
            ("slis", all(map(_is_sli, found["slis"].values()))),
        )
        if not is_right
    ]
    if wrong:
        raise UsageError(f"{path}: {wrong[0]}: missing or wrong; write the file with --save")


def _is_number(found: Any) -> bool:
    return isinstance(found, int | float) and math.isfinite(found) and not isinstance(found, bool)


def _is_block(found: Any) -> bool:
    return (
        isinstance(found, dict)
        and all(_is_number(found.get(name)) for name in ("steps", "tokens", "seconds"))
        and found["seconds"] > 0
        and min(found["steps"], found["tokens"]) >= 0
    )


def _is_sli(found: Any) -> bool:
    value = found.get("value", "") if isinstance(found, dict) else ""
    return (value is None or _is_number(value)) and isinstance(found.get("unit"), str)


def _save(path: Path, found: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--save: {path}: {error.strerror}; give a file that can be") from error
