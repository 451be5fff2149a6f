"""The recipes of CONTRIBUTING, for tests that follow them."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def recipe(title: str) -> list[str]:
    """Python code blocks of the recipe under the heading `### title`, in order.

    Raises:
        LookupError: there is no such recipe.
    """
    text = CONTRIBUTING.read_text(encoding="utf-8")
    parts = re.split(r"^#{2,3} (.+)\n", text, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if title not in sections:
        raise LookupError(f"CONTRIBUTING.md has no recipe {title!r}")
    block = re.compile(r"^( *)```python\n(.*?)^ *```", flags=re.MULTILINE | re.DOTALL)
    return [dedent(match[2]) for match in block.finditer(sections[title])]
