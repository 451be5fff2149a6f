"""The forms of secrets from well-known services and tools: the rules in `rules.toml`."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_name("rules.toml")
_SECRET = "secret"


class Rule(NamedTuple):
    """A form of secrets: its name in the replacement text, and the pattern's source.

    A text without any of `keywords` (lower case) does not match.
    """

    name: str
    keywords: tuple[str, ...]
    source: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; a process never needs most rules."""
        return _compiled(self.source)

    def withheld(self, text: str) -> str:
        """Return `text` with every secret in this form replaced by the form's name."""
        return self.pattern.sub(self._replaced, text)

    def _replaced(self, match: re.Match[str]) -> str:
        begin, end = match.span(_SECRET if _SECRET in match.re.groupindex else 0)
        prefix = match.string[match.start() : begin]
        return f"{prefix}(withheld: {self.name}){match.string[end : match.end()]}"


@cache
def _compiled(source: str) -> re.Pattern[str]:
    return re.compile(source)


@cache
def rules() -> tuple[Rule, ...]:
    """Return all rules, read at the first use: a trainer without descriptions skips them."""
    document = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(
        Rule(item["name"], tuple(item["keywords"]), item["pattern"]) for item in document["rule"]
    )


def rules_for(text: str) -> list[Rule]:
    """Return the rules that may match a text, by their keywords."""
    lower = text.lower()
    return [rule for rule in rules() if any(word in lower for word in rule.keywords)]
