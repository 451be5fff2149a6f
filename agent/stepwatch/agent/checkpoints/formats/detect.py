"""Finds a file's format by its name and first bytes, and examines its structure."""

from __future__ import annotations

import re

from stepwatch.agent.checkpoints.facts import FileFacts
from stepwatch.agent.checkpoints.limits import PAGE
from stepwatch.agent.checkpoints.reading import DamageError, Session, Window

from . import pickle_facts, safetensors, text, torch_legacy, torch_zip

_WEIGHTS = frozenset({".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
_TORCH_BIN = re.compile(
    r"(pytorch_model|adapter_model|optimizer|scheduler|training_args|scaler|model|random_states)"
    r"([-_.]?\d[\d-]*(of-\d+)?)?\.bin"
)
"""Files with the suffix `.bin` that transformers, Accelerate and PEFT write by `torch.save`."""
_NEVER_EMPTY = _WEIGHTS | {".bin", ".safetensors", ".json", ".distcp", ".metadata"}
_PLAIN_TEXTS = frozenset({"latest", "latest_checkpointed_iteration.txt"})
_PICKLE_PROTOCOLS = range(2, 6)


def examine(window: Window, facts: FileFacts, session: Session) -> None:
    """Add a file's format, structure and problems to `facts`.

    Raises:
        DamageError, UncheckableError: the file is damaged, or cannot be checked.
        OSError: the storage cannot be read.
    """
    suffix = _suffix(facts.name)
    head = window.read(0, PAGE)
    if not window.size:
        if suffix in _NEVER_EMPTY:
            raise DamageError("it is empty")
        return
    is_torch = suffix in _WEIGHTS or _TORCH_BIN.fullmatch(facts.name) is not None
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        torch_zip.examine(window, facts, session)
    elif head.startswith(torch_legacy.MAGIC):
        torch_legacy.examine(window, facts, session)
    elif suffix == ".safetensors":
        safetensors.examine(window, facts, session)
    elif suffix == ".json":
        text.examine_json(window, facts, session)
    elif suffix in text.SUFFIXES or facts.name in _PLAIN_TEXTS:
        text.examine_text(window, facts, session)
    elif is_torch:
        _examine_pickle(window, head, facts, session)
    elif head[0] == 0x80 and len(head) > 1 and head[1] in _PICKLE_PROTOCOLS:
        attempt = FileFacts(facts.path, facts.size, facts.mtime_s)
        pickle_facts.examine_plain(window, attempt, session)
        if not any("cannot be parsed" in problem.reason for problem in attempt.problems):
            facts.format = attempt.format
            facts.problems += attempt.problems


def _suffix(name: str) -> str:
    """Return the suffix in lower case; a name such as `.metadata` is its own suffix."""
    return f".{name.rpartition('.')[2]}".lower() if "." in name else ""


def _examine_pickle(window: Window, head: bytes, facts: FileFacts, session: Session) -> None:
    """Scan a file that must be a pickle, since it is no archive."""
    if not any(head):
        raise DamageError("it begins with zeros")
    pickle_facts.examine_plain(window, facts, session)
    reasons = [problem.reason for problem in facts.problems]
    if any(reason.startswith("its pickle cannot be parsed") for reason in reasons):
        facts.problems = [p for p in facts.problems if not p.reason.startswith("its pickle cannot")]
        facts.add("it is neither a whole archive nor a whole pickle")
