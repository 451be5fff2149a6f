"""systemd accepts the units, and they start the programs with valid options."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stepwatch.cli.main import load_verb
from stepwatch.signals.arguments import Parser
from tests.services import ROOT

UNITS = sorted(ROOT.glob("*/deploy/systemd/*.service"))
PROGRAM = "/opt/stepwatch/bin/stepwatch"


def test_there_are_units() -> None:
    assert [unit.name for unit in UNITS] == [
        "stepwatch-agent.service",
        "stepwatch-collector.service",
    ]


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_its_options_exist(unit: Path) -> None:
    (command,) = re.findall(rf"^ExecStart={PROGRAM} (.*)$", unit.read_text(), re.MULTILINE)
    verb, *words = (word for word in shlex.split(command) if not word.startswith("$"))
    parser = Parser(prog=verb)
    load_verb(verb).add_arguments(parser)
    options = parser.parse_args(words)
    (directory,) = re.findall(r"^StateDirectory=(.+)$", unit.read_text(), re.MULTILINE)
    place = Path(options.spool if verb == "agent" else options.store)
    assert place.parent == Path("/var/lib", directory), "systemd makes no other place writable"


def test_the_options_of_the_drop_in_exist() -> None:
    text = (ROOT / "collector/deploy/systemd/beyond-loopback.conf").read_text()
    (words,) = re.findall(r'^Environment="STEPWATCH_COLLECTOR_OPTIONS=(.*)"$', text, re.MULTILINE)
    parser = Parser(prog="collector")
    load_verb("collector").add_arguments(parser)
    options = parser.parse_args(shlex.split(words))
    files = (
        options.tls_cert,
        options.tls_key,
        options.ingest_token_file,
        options.read_token_file,
    )
    assert (
        all(path.parent == Path("/etc/stepwatch") for path in files) and options.host == "0.0.0.0"
    )


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_it(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace(PROGRAM, sys.executable))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0 and unit.name not in verified.stderr, verified.stderr
    security = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=40", str(copy)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert security.returncode == 0, security.stdout[-500:]
