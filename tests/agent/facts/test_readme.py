"""The table of facts in the agent's README is the catalogue."""

from __future__ import annotations

import re

from stepwatch.signals.node_facts.catalogue import CATALOGUE
from stepwatch.signals.records import NodeFact
from tests.services import ROOT


def test_the_table_is_the_catalogue() -> None:
    text = (ROOT / "agent/README.md").read_text()
    row = r"^\| `([a-z-]+)` \| [^|]+ \| ([a-z ]+) \| ([a-z -]+) \| (\d+) s \| ([a-z, -]+) \|$"
    shown = re.findall(row, text, re.MULTILINE)
    documented = [
        (
            kind.name,
            "by its number" if kind.fact is NodeFact.XID else kind.severity.value,
            "by its number" if kind.fact is NodeFact.XID else kind.action.value,
            f"{kind.quiet_seconds:g}",
            ", ".join(sorted(fact.value for fact in kind.explains)) or "nothing",
        )
        for kind in CATALOGUE.values()
    ]
    assert shown == documented
