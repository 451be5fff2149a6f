"""The reference trainer: `manifest.json` has size and SHA-256 of every file, and its own."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from stepwatch.agent.checkpoints.facts import FileFacts
from stepwatch.agent.checkpoints.folder import Folder
from stepwatch.agent.checkpoints.result import FileDigest

NAME = "stepwatch"
MANIFEST = "manifest.json"


def recognizes(folder: Folder) -> bool:
    """Return whether the folder has such a manifest."""
    facts = folder.files.get(MANIFEST)
    return facts is not None and {"files", "sha256", "step"} <= facts.keys


def check(folder: Folder) -> None:
    """Check the manifest's own digest, and that no file is missing."""
    facts = folder.files[MANIFEST]
    if (step := facts.number("step")) is not None:
        folder.steps[MANIFEST] = step
    document: dict[str, Any] = dict(facts.document)
    sealed = document.pop("sha256")
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    if hashlib.sha256(canonical).hexdigest() != sealed:
        folder.add(MANIFEST, "it does not match its own digest")
    for name in expected(facts):
        if name not in folder.files:
            folder.missing(name, f"; {MANIFEST} names it")


def expected(facts: FileFacts) -> dict[str, FileDigest]:
    """Return size and digest of each file that a manifest lists, by name; empty for others."""
    match facts.document:
        case {"files": {**files}}:
            pass
        case _:
            return {}
    entries: dict[str, FileDigest] = {}
    for name, entry in files.items():
        match entry:
            case {"size": int(size), "sha256": str(sha256)}:
                entries[str(name)] = FileDigest(size, sha256)
    return entries
