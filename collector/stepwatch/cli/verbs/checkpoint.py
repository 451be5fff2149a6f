"""`stepwatch checkpoint verify`: is this checkpoint whole, and safe to load?"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepwatch.cli import terminal
from stepwatch.signals.arguments import positive_seconds
from stepwatch.signals.durable import write_durably
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import file_problem
from stepwatch.signals.plain_text import plain_line

if TYPE_CHECKING:
    from stepwatch.agent.checkpoints import FileDigest, Report

EXAMPLE = "stepwatch checkpoint verify /ckpt/step-1000 --manifest step-1000.json"
VERIFIED, DAMAGED, UNKNOWN = 0, 1, 2
_CODES = {"verified": VERIFIED, "damaged": DAMAGED, "unknown": UNKNOWN}
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?(?:/s)?", re.ASCII)
_POWERS = ("", "k", "M", "G", "T")
_PURPOSE = (
    "read a checkpoint's files and every byte in them, without loading a pickle; exit 0 if it is "
    "verified, 1 if it is damaged or a load would run foreign code, 2 if that is unknown"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the action and its options."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    verify = actions.add_parser(
        "verify",
        description=textwrap.fill(_PURPOSE, 79),
        help="is a checkpoint whole, and safe to load?",
        epilog=f"example: {EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verify.add_argument(
        "path", type=Path, help="a file, a checkpoint's folder, or a folder with several"
    )
    verify.add_argument(
        "--manifest", type=Path, metavar="FILE", help="write size and SHA-256 of every file"
    )
    verify.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="compare with the manifest of an earlier verification: finds every changed bit",
    )
    verify.add_argument(
        "--limit-rate",
        type=bytes_per_second,
        metavar="RATE",
        help="read at most so much, such as 200MB/s",
    )
    verify.add_argument(
        "--timeout",
        type=positive_seconds,
        default=600.0,
        metavar="SECONDS",
        help="unknown if it takes longer [600]",
    )
    verify.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Verify a checkpoint and return 0, 1 or 2 by its state.

    Raises:
        UsageError: there is no such path, or a manifest cannot be read or written.
    """
    from stepwatch.agent.checkpoints import Options, verify_supervised

    if not arguments.path.exists() and not arguments.path.is_symlink():
        raise UsageError(f"there is no {arguments.path}")
    options = Options(
        timeout_s=arguments.timeout,
        rate=arguments.limit_rate,
        digests=arguments.manifest is not None,
        expected={} if arguments.against is None else read_manifest(arguments.against),
    )
    is_drawn = terminal.is_redrawn() and not arguments.json
    try:
        progress = _Progress() if is_drawn else None
        report = verify_supervised(str(arguments.path), options, progress)
    finally:
        if is_drawn:
            terminal.redraw("")
    if arguments.manifest is not None:
        _write_manifest(arguments.manifest, report)
    if arguments.json:
        print(json.dumps(report.document(), indent=1))
    else:
        print(text(report))
    return _CODES[report.state.value]


def bytes_per_second(words: str) -> float:
    """Return a rate such as `200MB/s` in bytes a second.

    Raises:
        ArgumentTypeError: it is no rate above 0.
    """
    match = _RATE.fullmatch(words.strip())
    rate = float(match[1]) * (1024 if match[3] else 1000) ** _POWERS.index(match[2]) if match else 0
    if rate < 1:
        raise argparse.ArgumentTypeError(f"{words[:40]!r} is no rate such as 200MB/s")
    return rate


def read_manifest(path: Path) -> Mapping[str, FileDigest]:
    """Return the digests in a manifest by relative path.

    Raises:
        UsageError: it cannot be read, or is no manifest.
    """
    from stepwatch.agent.checkpoints import FileDigest

    try:
        files: dict[str, Any] = json.loads(path.read_bytes())["files"]
        return {name: FileDigest(entry["size"], entry["sha256"]) for name, entry in files.items()}
    except OSError as error:
        raise UsageError(f"cannot read {path}: {file_problem(error)}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no manifest by `stepwatch checkpoint verify`") from error


def _write_manifest(path: Path, report: Report) -> None:
    try:
        write_durably(path, json.dumps(report.manifest(), indent=1).encode() + b"\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {file_problem(error)}") from error


def text(report: Report) -> str:
    """Return the report as lines: the state, then each problem."""
    step = f"step {report.step}, " if report.step is not None else ""
    files = f"{report.files} file{'' if report.files == 1 else 's'}"
    amount = size(report.bytes_read)
    if report.bytes_read < report.size:
        amount += f" of {size(report.size)}"
    head = (
        f"{terminal.painted(report.state.value)}: {report.path}: {report.layout}, {step}{files}, "
    )
    lines = [f"{head}{amount} read in {report.seconds:.3g} s"]
    for problem in report.problems:
        place = f"{problem.file}: " if problem.file else ""
        lines.append(plain_line(f"{problem.weight.value:8} {place}{problem.reason}"))
    return "\n".join(lines)


def size(count: float) -> str:
    """Format bytes with three digits: `1.23 GB`."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


class _Progress:
    """Draws one line with bytes, rate and file."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __call__(self, count: int, total: int, name: str) -> None:
        seconds = max(time.monotonic() - self._began_s, 1e-9)
        percent = 100 * count / total if total else 100
        rate = size(count / seconds)
        terminal.redraw(f"{percent:3.0f}%  {size(count)} of {size(total)}, {rate}/s: {name}")
