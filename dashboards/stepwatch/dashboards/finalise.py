"""Last pass over a built dashboard, and its text.

grafana-foundation-sdk 0.0.21 leaves panel ids unset (rows all get 0) and puts every link and
annotation into the controls menu, where the on-call does not find them. This pass fixes both.
"""

from __future__ import annotations

import json
from typing import Any

from .sdk import JSONEncoder, builders


def finalise(page: builders.Dashboard) -> dict[str, Any]:
    """Build the dashboard's JSON, number its panels in reading order, and show its links."""
    built: dict[str, Any] = json.loads(JSONEncoder().encode(page.build()))
    for number, panel in enumerate(built["panels"], start=1):
        panel["id"] = number
        for link in panel.get("links", []):
            link.pop("placement", None)
    annotations = built.get("annotations", {}).get("list", [])
    for shown in (*built.get("links", []), *annotations):
        shown.pop("placement", None)
    return built


def text(page: builders.Dashboard) -> str:
    """Return the dashboard's JSON text, which is deterministic."""
    return json.dumps(finalise(page), sort_keys=True, indent=2, ensure_ascii=False) + "\n"
