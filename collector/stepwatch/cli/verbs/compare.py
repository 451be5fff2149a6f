"""`stepwatch compare`: two runs, which is faster or cheaper, and what changed; exit 1 if slower."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stepwatch.cli.compare.comparison import comparison
from stepwatch.cli.compare.pace import Verdict
from stepwatch.cli.compare.shown import comparison_text
from stepwatch.cli.source import add_source_arguments, ask_as_sent, component, plain_document
from stepwatch.collector.slo.asked.rates import read_rates
from stepwatch.signals import places
from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import file_problem

Check = Callable[[Any], bool]
EXAMPLE = "stepwatch compare baseline.json llama-7b --bound 0.03"

_MOST_BYTES = 64 << 20
_LATEST_S = 10_413_792_000
"""The year 2300 in Unix seconds: later moments are invalid."""
_MOST = 1e18
_LEAST_SECONDS = 1e-9


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
        default=os.environ.get(places.ENV_RATES) or None,
        metavar="FILE",
        help=f"rate card in TOML: compare tokens for the money [{places.ENV_RATES}]",
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="write the last named run, to compare with later"
    )
    add_source_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the comparison; exit 1 on a regression or an unclear verdict."""
    if arguments.new is None and arguments.save is None:
        raise UsageError("name a second run, or pass --save FILE")
    card = None if arguments.rates is None else read_rates(Path(arguments.rates))
    runs = [_read(arguments, name) for name in (arguments.base, arguments.new) if name is not None]
    if arguments.save is not None:
        _save(arguments.save, runs[-1])
    if arguments.new is None:
        print(f"{arguments.save}: job {runs[-1]['job']}, attempt {runs[-1]['attempt']}")
        return 0
    compared = comparison(runs[0], runs[1], arguments.bound, card)
    as_json = arguments.json
    print(json.dumps(compared, indent=1) if as_json else comparison_text(plain_document(compared)))
    return int(compared["verdict"] != Verdict.NO_REGRESSION)


def _bound(words: str) -> float:
    try:
        share = float(words.removesuffix("%")) / (100 if words.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        problem = f"{words[:40]!r} is not a share; write one such as 0.05, or 5%"
        raise argparse.ArgumentTypeError(problem)
    return share


def _read(arguments: argparse.Namespace, name: str) -> dict[str, Any]:
    """Return a saved run, or a job's newest run."""
    path = Path(name)
    if path.suffix != ".json" and not path.is_file():
        document: dict[str, Any] = ask_as_sent(arguments, f"/v1/jobs/{component(name, 'job')}/run")
        return document
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path}: larger than {_MOST_BYTES >> 20} MiB; it is not a run")
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {file_problem(error)}; write it with --save") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: no JSON; write it with --save") from error
    _check(document, path)
    return document


def _check(document: Any, path: Path) -> None:
    """Check that a file holds a run.

    Raises:
        UsageError: it does not.
    """
    if not isinstance(document, dict):
        raise UsageError(f"{path}: holds no run; write it with --save")
    wrong = [name for name, is_right in _NEEDED.items() if not is_right(document.get(name))]
    if wrong:
        raise UsageError(f"{path}: {wrong[0]}: missing or wrong; write the file with --save")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    """Return whether the value is a number, finite and no larger than any count or time."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _MOST


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value) and value >= 0


def _is_moment(moment_s: Any) -> bool:
    return _is_number(moment_s) and 0 <= moment_s < _LATEST_S


def _is_block(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and _is_count(block.get("steps"))
        and _is_count(block.get("tokens"))
        and _is_number(block.get("seconds"))
        and block["seconds"] >= _LEAST_SECONDS
    )


def _is_sli(sli: Any) -> bool:
    value = sli.get("value", "") if isinstance(sli, dict) else ""
    return (value is None or _is_number(value)) and _is_text(sli.get("unit"))


def _mapping_of(is_right: Check) -> Check:
    """Return a check for an object whose values all pass `is_right`."""
    return lambda mapping: isinstance(mapping, dict) and all(map(is_right, mapping.values()))


def _is_phases(phases: Any) -> bool:
    """Return whether phases have a number of steps, and seconds by phase."""
    return (
        isinstance(phases, dict)
        and _is_count(phases.get("steps"))
        and _mapping_of(_is_number)(phases.get("seconds"))
    )


_NEEDED: Mapping[str, Check] = {
    "job": _is_text,
    "job_class": _is_text,
    "attempt": _is_count,
    "state": _is_text,
    "began_at": _is_moment,
    "world_size": lambda size: _is_count(size) and size > 0,
    "clock": lambda clock: clock is None or _is_text(clock),
    "blocks": lambda blocks: isinstance(blocks, list) and all(map(_is_block, blocks)),
    "phase_seconds": _is_phases,
    "slis": _mapping_of(_is_sli),
    "incidents": _mapping_of(_is_count),
    "facts": _mapping_of(_is_text),
}
"""Check for each key in a run's document; optional keys accept None."""


def _save(path: Path, document: dict[str, Any]) -> None:
    """Write a run atomically: an interruption leaves the old baseline or the new one."""
    try:
        write_durably(path, (json.dumps(document, indent=1) + "\n").encode())
    except OSError as error:
        raise UsageError(f"--save: {path}: {error.strerror}; give a file that can be") from error
