"""What the guides for nodes show fits the programs: messages, manifests, services, commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from stepwatch.cli.main import load_verb
from stepwatch.signals.arguments import Parser
from tests.guides.pages import ROOT, blocks

NODES = ROOT / "agent" / "guides"
PARTS = ("agent", "collector", "training")


def quoted_messages() -> list[str]:
    """Messages of the troubleshooting page."""
    text = (NODES / "troubleshooting.md").read_text()
    return re.findall(r"^\*\*`(.+?)`\*\*", text, re.MULTILINE)


@pytest.fixture(scope="module")
def sources() -> str:
    """All code of the programs, with literals that go on in the next line joined."""
    files = sorted(path for part in PARTS for path in (ROOT / part / "stepwatch").rglob("*.py"))
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in files))


@pytest.mark.parametrize("message", quoted_messages())
def test_a_message_is_one_that_a_program_prints(message: str, sources: str) -> None:
    for part in filter(None, (part.strip() for part in message.split("…"))):
        assert part in sources


def parsed(words: list[str]) -> Any:
    """The options that a verb makes of `words`."""
    parser = Parser(prog=words[0], allow_abbrev=False)
    load_verb(words[0]).add_arguments(parser)
    return parser.parse_args(words[1:])


def documents(page: Path) -> list[Any]:
    return [yaml.safe_load(block) for block in blocks(page, "yaml")]


def test_the_manifests_start_the_programs_with_options_that_exist() -> None:
    containers = [
        container
        for document in documents(NODES / "kubernetes.md")
        if "kind" in document
        for container in document["spec"]["template"]["spec"]["containers"]
    ]
    assert {container["args"][0] for container in containers} == {"agent", "collector"}
    for container in containers:
        parsed(container["args"])
        names = {mount["name"] for mount in container["volumeMounts"]}
        assert names <= {"rings", "spool", "store", "token"}


def test_the_volumes_of_a_manifest_are_defined_in_it() -> None:
    for document in documents(NODES / "kubernetes.md"):
        if "kind" in document:
            pod = document["spec"]["template"]["spec"]
            mounted = {mount["name"] for one in pod["containers"] for mount in one["volumeMounts"]}
            assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_prometheus_takes_the_scrape_configuration(tmp_path: Path) -> None:
    (shown,) = blocks(NODES / "one-node.md", "yaml")
    rules = ROOT / "alerts" / "generated" / "training.rules.yaml"
    config = tmp_path / "prometheus.yml"
    config.write_text(shown.replace("/etc/stepwatch/generated/training.rules.yaml", str(rules)))
    ran = subprocess.run(["promtool", "check", "config", config], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_batch_script_is_one(tmp_path: Path) -> None:
    (shown,) = blocks(NODES / "slurm.md", "bash")
    ran = subprocess.run(["bash", "-n"], input=shown, capture_output=True, text=True)
    assert ran.returncode == 0 and not ran.stderr


def test_every_guide_is_in_the_index() -> None:
    index = (NODES / "README.md").read_text()
    pages = {page.name for page in NODES.glob("*.md")} - {"README.md"}
    assert pages and all(f"({page})" in index for page in pages)
