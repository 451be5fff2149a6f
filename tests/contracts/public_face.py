"""The public face as text: everything that users, dashboards and other programs may rely on.

One fact per line, sorted within its section, so that a diff shows what a change does to others.
`python -m tests.contracts.public_face --accept` writes the file that the test compares with.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from stepwatch.cli.main import VERBS, load_verb
from stepwatch.hooks import Watch
from stepwatch.signals import names, wire
from stepwatch.signals.blackbox import layout
from stepwatch.signals.records import DTYPES, RING_KINDS
from tests.collector.made import run_segments
from tests.contracts.responses import response_keys

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests/data/public_face.txt"
ACCEPT = "python -m tests.contracts.public_face --accept"
FOLDERS = ("agent", "alerts", "collector", "dashboards", "runbooks", "training")


def records() -> Iterator[str]:
    """Each field of each record kind with its dtype, in the order of the bytes."""
    for kind, dtype in DTYPES.items():
        yield f"{kind.name} = {kind.value}{', written by ranks' if kind in RING_KINDS else ''}"
        for index, name in enumerate(dtype.names or ()):
            yield f"{kind.name} {index:02} {name} {dtype[name].str}"


def formats() -> Iterator[str]:
    """Yield the first bytes of each file format, by which readers tell formats apart."""
    yield f"segment {wire.encode(run_segments(5)[0])[:8]!r}"
    yield f"ring {layout.MAGIC!r}"


def metrics() -> Iterator[str]:
    """Each metric with its type and labels."""
    for metric in names.METRICS:
        yield f"{metric.name}{{{', '.join(metric.labels)}}} {metric.kind.value}"


def alerts() -> Iterator[str]:
    """Each alert; a runbook has the same name."""
    yield from names.ALERT_NAMES


def finding_kinds() -> Iterator[str]:
    """Values of the label `kind`, and of `cause`."""
    yield from (f"kind {kind.value}" for kind in names.FindingKind)
    yield from (f"cause {cause.value}" for cause in names.Cause)


def http() -> Iterator[str]:
    """Yield each path with the keys of a collector's answers over a synthetic run."""
    with tempfile.TemporaryDirectory() as folder:
        yield from response_keys(Path(folder))


def command() -> Iterator[str]:
    """Yield each verb with its arguments, the values of choices, and defaults."""
    for verb in VERBS:
        parser = argparse.ArgumentParser(prog=verb, add_help=False)
        load_verb(verb).add_arguments(parser)
        yield from _face(f"stepwatch {verb}", parser)


def _face(command: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield a command with its arguments, and those of its subcommands."""
    yield command
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, subparser in action.choices.items():
                yield from _face(f"{command} {name}", subparser)
        elif action.dest != "help":
            yield f"{command} {_argument(action)}"


def _argument(action: argparse.Action) -> str:
    name = ", ".join(action.option_strings) or f"<{action.dest}>"
    takes = "" if action.nargs == 0 else " VALUE" if action.option_strings else ""
    choices = "" if action.choices is None else f" of {', '.join(map(str, action.choices))}"
    return f"{name}{takes}{' (required)' if action.required else ''}{choices}"


def library() -> Iterator[str]:
    """Each public method and property of `Watch` with its signature."""
    for name in dir(Watch):
        if name.startswith("_"):
            continue
        attribute = inspect.getattr_static(Watch, name)
        if isinstance(attribute, property):
            assert attribute.fget is not None
            yield f"Watch.{name}: {inspect.signature(attribute.fget).return_annotation}"
        elif callable(getattr(Watch, name)):
            yield f"Watch.{name}{inspect.signature(getattr(Watch, name))}"


def environment() -> Iterator[str]:
    """Each environment variable that a source file names."""
    spelled = re.compile(r"[\"'](STEPWATCH_[A-Z_]+)[\"']")
    for folder in FOLDERS:
        for path in (ROOT / folder / "stepwatch").rglob("*.py"):
            yield from spelled.findall(path.read_text(encoding="utf-8"))


SECTIONS: dict[str, Callable[[], Iterable[str]]] = {
    "record kinds and fields": records,
    "first bytes of segments and rings": formats,
    "metrics": metrics,
    "alerts": alerts,
    "kinds and causes of incidents": finding_kinds,
    "HTTP paths and keys of their answers": http,
    "verbs and options": command,
    "methods of Watch": library,
    "environment variables": environment,
}


def text() -> str:
    """The whole face."""
    parts = ["\n".join([f"# {title}", *sorted(set(lines()))]) for title, lines in SECTIONS.items()]
    return "\n\n".join(parts) + "\n"


def main(words: list[str]) -> int:
    """Print the face, or write it to its file."""
    if words == ["--accept"]:
        FILE.write_text(text(), encoding="utf-8")
        print(f"wrote {FILE.relative_to(ROOT)}; commit it with the change that it shows")
    else:
        print(text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
