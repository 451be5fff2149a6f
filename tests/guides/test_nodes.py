"""The node guides fit the programs: messages, manifests, services, commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from stepwatch.collector.web.access import Role, TokenFiles
from stepwatch.collector.web.access.certificate import Certificate
from tests.access.certificates import shakes_hands
from tests.guides.pages import ROOT, blocks

NODES = ROOT / "agent" / "guides"
PARTS = ("agent", "collector", "training")


def quoted_messages() -> list[str]:
    """Messages of the troubleshooting page."""
    text = (NODES / "troubleshooting.md").read_text()
    return re.findall(r"^\*\*`(.+?)`\*\*", text, re.MULTILINE)


@pytest.fixture(scope="module")
def sources() -> str:
    """Return all source code of the programs, with literals joined across lines."""
    files = sorted(path for part in PARTS for path in (ROOT / part / "stepwatch").rglob("*.py"))
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in files))


@pytest.mark.parametrize("message", quoted_messages())
def test_a_message_is_one_that_a_program_prints(message: str, sources: str) -> None:
    for part in filter(None, (part.strip() for part in message.split("…"))):
        assert part in sources


def test_prometheus_takes_the_scrape_configuration(tmp_path: Path) -> None:
    (shown,) = blocks(NODES / "one-node.md", "yaml")
    rules = ROOT / "alerts" / "generated" / "training.rules.yaml"
    config = tmp_path / "prometheus.yml"
    config.write_text(shown.replace("/etc/stepwatch/generated/training.rules.yaml", str(rules)))
    ran = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_certificates_of_the_guide_are_ones_that_a_collector_serves(tmp_path: Path) -> None:
    (shown,) = blocks(NODES / "one-node.md", "sh")
    ran = subprocess.run(["sh", "-e"], input=shown, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert shakes_hands(
        Certificate(tmp_path / "tls.crt", tmp_path / "tls.key"), tmp_path / "ca.crt"
    )
    roles = [(tmp_path / f"{role.value}.tokens", frozenset({role})) for role in Role]
    assert TokenFiles(roles).tokens.described() == "1 admin, 1 ingest, 1 read"
    assert all(path.stat().st_mode & 0o077 == 0 for path, _ in roles)


def test_the_batch_script_is_one(tmp_path: Path) -> None:
    (shown,) = blocks(NODES / "slurm.md", "bash")
    ran = subprocess.run(["bash", "-n"], input=shown, capture_output=True, text=True)
    assert ran.returncode == 0 and not ran.stderr


def test_every_guide_is_in_the_index() -> None:
    index = (NODES / "README.md").read_text()
    pages = {page.name for page in NODES.glob("*.md")} - {"README.md"}
    assert pages and all(f"({page})" in index for page in pages)
