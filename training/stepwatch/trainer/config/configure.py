"""Resolves `Options` from flags and a TOML file; a flag wins over the file, both over defaults."""

from __future__ import annotations

import argparse
import dataclasses
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from stepwatch.signals.arguments import Parser
from stepwatch.signals.errors import UsageError
from stepwatch.signals.phrases import closest_hint

from .mesh import AXES, MeshShape, parse_mesh
from .options import Options

EXAMPLE = (
    "stepwatch train --mesh pp=2,dp_shard=2 --schedule 1f1b --model debug --steps 30 --seed 1 "
    "--json result.json"
)


def _sections() -> Iterator[tuple[str, type[Any]]]:
    yield from get_type_hints(Options).items()


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _help_line(entry: dataclasses.Field[Any]) -> str:
    text = str(entry.metadata["help"]).replace("%", "%%")
    choices = entry.metadata["choices"]
    listed = f" ({' | '.join(choices)})" if choices else ""
    return f"{text}{listed} [{entry.default}]" if entry.default != "" else f"{text}{listed}"


_METAVARS = {"int": "N", "float": "X", "str": "WORD", "bool": "YES|NO", "MeshShape": "AXIS=N,..."}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare one flag per option, grouped by section; a flag that is absent stays None."""
    parser.add_argument("--config", metavar="FILE", help="TOML file with the sections below")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="NAME[:KEY=VALUE,...]",
        help="inject a fault, such as slow-compute:rank=2,step=20; repeatable",
    )
    for section, kind in _sections():
        group = parser.add_argument_group(f"[{section}]")
        for entry in dataclasses.fields(kind):
            group.add_argument(
                _flag(entry.name),
                dest=entry.name,
                metavar=_METAVARS[str(entry.type)],
                help=_help_line(entry),
            )


def build_parser(prog: str) -> argparse.ArgumentParser:
    """Build the parser for `python -m stepwatch.trainer`."""
    parser = Parser(
        prog=prog,
        description="Train a byte-level transformer on any mesh, observed by stepwatch.",
        epilog=f"example:\n  {EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add_arguments(parser)
    return parser


def _read_file(path: Path) -> dict[str, dict[str, Any]]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    sections = dict(_sections())
    for section, body in table.items():
        if section not in sections:
            raise UsageError(
                f"{path}: no section {section!r}; {closest_hint(section, list(sections))}"
            )
        if not isinstance(body, dict):
            raise UsageError(f"{path}: {section!r} is a section; write [{section}] above its keys")
        names = [entry.name for entry in dataclasses.fields(sections[section])]
        for key in body:
            if key not in names:
                raise UsageError(
                    f"{path}: no option {key!r} in [{section}]; {closest_hint(key, names)}"
                )
    return table


def _mesh(value: Any) -> MeshShape:
    if isinstance(value, Mapping):
        value = ",".join(f"{axis}={size}" for axis, size in value.items())
    if not isinstance(value, str):
        raise ValueError(f"write {', '.join(AXES)} as axis=size")
    return parse_mesh(value)


_BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return _BOOLEANS[str(value).lower()]


_READERS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": _boolean,
    "MeshShape": _mesh,
}


_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "MeshShape": "a mesh, such as pp=2,dp_shard=2",
}


def _converted(entry: dataclasses.Field[Any], value: Any) -> Any:
    kind = str(entry.type)
    try:
        # int() accepts TOML's 1.5 (as 1) and true (as 1).
        if kind == "int" and isinstance(value, float | bool):
            raise ValueError("not a whole number")
        result = _READERS[kind](value)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{_flag(entry.name)} {value!r} is not {_NAMES[kind]}") from error
    choices = entry.metadata["choices"]
    if choices and result not in choices:
        raise UsageError(f"{_flag(entry.name)} {result!r}: {closest_hint(str(result), choices)}")
    return result


def _checked_flags(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    namespace, extra = parser.parse_known_args(arguments)
    for word in extra:
        if word.startswith("--"):
            flags = [name for action in parser._actions for name in action.option_strings]
            raise UsageError(f"no option {word.split('=')[0]}; {closest_hint(word, flags)}")
    if extra:
        raise UsageError(f"unexpected argument {extra[0]!r}; see --help")
    return namespace


def resolve(flags: argparse.Namespace) -> Options:
    """Resolve the configuration from parsed flags and the file that they name.

    Raises:
        UsageError: a key is unknown (the message names the nearest), or a value does not have the
            option's type.
    """
    table = _read_file(Path(flags.config)) if flags.config else {}
    resolved = {}
    for section, kind in _sections():
        values = dict(table.get(section, {}))
        for entry in dataclasses.fields(kind):
            if (flag := getattr(flags, entry.name)) is not None:
                values[entry.name] = flag
        converted = {
            entry.name: _converted(entry, values[entry.name])
            for entry in dataclasses.fields(kind)
            if entry.name in values
        }
        resolved[section] = kind(**converted)
    return Options(**resolved)


def configure(arguments: Sequence[str], prog: str) -> tuple[Options, list[str]]:
    """Parse flags and resolve the configuration; return it and the values for `--fault`.

    Raises:
        UsageError: as in `resolve`, or a flag is unknown (the message names the nearest).
    """
    flags = _checked_flags(build_parser(prog), arguments)
    return resolve(flags), list(flags.fault)


def as_flags(options: Options) -> list[str]:
    """Return the flags that resolve to this configuration."""
    words: list[str] = []
    for section in dataclasses.fields(options):
        body = getattr(options, section.name)
        for entry in dataclasses.fields(body):
            value = getattr(body, entry.name)
            if value != entry.default:
                words += [
                    _flag(entry.name),
                    value.flag if isinstance(value, MeshShape) else str(value),
                ]
    return words


def as_table(options: Options) -> dict[str, Any]:
    """Return the configuration as nested plain values, for printing and for the run manifest."""
    return dataclasses.asdict(options)
