"""Checks commands of other tools against the list of their options in `tools.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CATALOGUE: dict[str, Any] = tomllib.loads(Path(__file__).with_name("tools.toml").read_text())
TOOLS: dict[str, dict[str, Any]] = CATALOGUE["tools"]
NOT_COMMANDS = frozenset(CATALOGUE["not_commands"])
_NUMBER = re.compile(r"-\d+")


def problems(words: list[str]) -> Iterator[str]:
    """Yield the unknown parts of a command: its tool, an option, a subcommand or a value."""
    name, *arguments = words
    tool = TOOLS.get(name)
    if tool is None:
        yield f"{name}: no such tool in tools.toml"
        return
    if "runs_after" in tool:
        yield from problems(arguments[tool["runs_after"] :])
        return
    yield from _options(name, tool, arguments)
    yield from _choices(name, tool, arguments)
    operands = list(_operands(tool, arguments))
    verbs = tool.get("verbs")
    if verbs and operands and not set(operands) & set(verbs):
        yield f"{name}: none of {operands} is a subcommand that is known"
    for operand in operands:
        key = operand.split("=")[0].lower()
        if "keys" in tool and "=" in operand and key not in tool["keys"]:
            yield f"{name}: no key {key!r}"


def _operands(tool: dict[str, Any], words: list[str]) -> Iterator[str]:
    """Yield the words that are neither an option nor the value of a known option."""
    taking = {*tool.get("choices", ()), *tool.get("takes", ())}
    for previous, word in zip(["", *words], words, strict=False):
        if not word.startswith("-") and previous not in taking:
            yield word


def _options(name: str, tool: dict[str, Any], words: list[str]) -> Iterator[str]:
    options = set(tool.get("options", ()))
    for word in (word for word in words if word.startswith("-")):
        option = word.split("=")[0]
        if option in options or ("-N" in options and _NUMBER.fullmatch(word)):
            continue
        letters = {f"-{letter}" for letter in option[1:]}
        if option.startswith("--") or not letters <= options:
            yield f"{name}: no option {option}"


def _choices(name: str, tool: dict[str, Any], words: list[str]) -> Iterator[str]:
    for option, choices in tool.get("choices", {}).items():
        for index, word in enumerate(words):
            value = word.removeprefix(f"{option}=")
            if word == option:
                value = words[index + 1]
            elif value == word:
                continue
            for unknown in sorted(set(value.split(",")) - set(choices)):
                yield f"{name}: {option} takes no {unknown!r}"
