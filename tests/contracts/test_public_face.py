"""The public face changes only on purpose: the test shows each change."""

from __future__ import annotations

import difflib

from tests.contracts.public_face import ACCEPT, FILE, text


def test_the_public_face_is_as_the_file_has_it() -> None:
    recorded = FILE.read_text(encoding="utf-8") if FILE.exists() else ""
    changes = difflib.unified_diff(
        recorded.splitlines(), text().splitlines(), "kept", "now", lineterm="", n=0
    )
    shown = "\n".join(changes)
    assert not shown, f"the public face has changed; if it should, run: {ACCEPT}\n{shown}"
