"""JSON and other text files: they parse, and hold no secret."""

from __future__ import annotations

import json

from stepwatch.agent.checkpoints.facts import FileFacts
from stepwatch.agent.checkpoints.reading import DamageError, Session, UncheckableError, Window
from stepwatch.agent.checkpoints.result import Weight

from .secrets import first_secret, is_credential, named_strings

SUFFIXES = frozenset(
    {".txt", ".md", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".env", ".py", ".sh", ".log", ".csv"}
)
_VOCABULARIES = frozenset({"tokenizer.json", "vocab.json", "added_tokens.json", "merges.txt"})
"""Lists of words, among them any text."""
_SHORT = 4096
"""Bytes of a text that a layout may read as a name or a number."""


def examine_json(window: Window, facts: FileFacts, session: Session) -> None:
    """Parse a JSON file and search it for secrets.

    Raises:
        DamageError: it is no JSON.
        UncheckableError: it is larger than the limit.
        OSError: the storage cannot be read.
    """
    facts.format = "json"
    if window.size > session.limits.json_bytes:
        raise UncheckableError(f"it has {window.size} bytes")
    data = window.read(0, window.size)
    try:
        facts.document = json.loads(data)
    except (ValueError, RecursionError) as error:
        zeros = bool(data) and not any(data)
        raise DamageError("it holds only zeros" if zeros else "it is no JSON") from error
    if isinstance(facts.document, dict):
        facts.values = facts.document
        facts.keys = frozenset(facts.document)
    if facts.name in _VOCABULARIES:
        return
    for name, value in named_strings(facts.document):
        form = name if is_credential(name, value) else first_secret(value[:4096])
        if form is not None:
            facts.add(f"it holds a secret ({form[:60]})", Weight.NOTICE)
            return


def examine_text(window: Window, facts: FileFacts, session: Session) -> None:
    """Search the beginning of a text file for secrets.

    Raises:
        OSError: the storage cannot be read.
    """
    facts.format = "text"
    data = window.read(0, session.limits.text_bytes)
    if data and not any(data):
        raise DamageError("it holds only zeros")
    content = data.decode("utf-8", "replace")
    if window.size <= _SHORT:
        facts.document = content
    if facts.name in _VOCABULARIES:
        return
    if (form := first_secret(content)) is not None:
        facts.add(f"it holds a secret ({form[:60]})", Weight.NOTICE)
