"""What axe-core finds wrong with a page: labels, contrast, order of headings, roles."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

SOURCES = Path(__file__).parents[3] / "collector/page"
SCRIPT = SOURCES / "node_modules/axe-core/axe.min.js"


@cache
def axe_script() -> str:
    """Return axe-core, which comes with the tools of the page's own tests."""
    if not SCRIPT.exists():
        words = [sys.executable, str(SOURCES / "hatch_build.py"), "--test"]
        subprocess.run(words, check=True, capture_output=True, timeout=300)
    return SCRIPT.read_text(encoding="utf-8")


def violations(page: Page, rules: list[str] | None = None) -> list[str]:
    """Return each of the `rules` (all of them) that the page breaks, with the first places."""
    page.evaluate(axe_script())
    found: list[dict[str, Any]] = page.evaluate(
        "rules => axe.run(rules ? { runOnly: rules } : {}).then(result => result.violations)",
        rules,
    )
    return [
        f"{rule['id']}: {', '.join(str(node['target'][0]) for node in rule['nodes'][:4])}"
        for rule in found
    ]
