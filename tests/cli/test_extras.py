"""What a verb needs installed: help needs nothing, an error names the smallest extra."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

from stepwatch.cli.main import EXTRAS, VERBS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {
    "grafana-foundation-sdk": "grafana_foundation_sdk",
    "markdown-it-py": "markdown_it",
    "mlflow-skinny": "mlflow",
    "nvidia-ml-py": "pynvml",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "prometheus-client": "prometheus_client",
    "promql-parser": "promql_parser",
    "psycopg[binary]": "psycopg",
    "pyyaml": "yaml",
}
"""Module of a package where the names differ."""
HIDE = """
import importlib.abc, sys
hidden = set(sys.argv[1].split(","))
class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from stepwatch.cli.main import main
for words in sys.argv[2:]:
    try:
        code = main(words.split())
    except SystemExit as left:
        code = left.code
    print(f"exit code of {words}: {code}")
"""


def modules_of(extras: Iterable[str]) -> set[str]:
    """Modules of the packages that these extras install."""
    listed = PROJECT["optional-dependencies"]
    packages = {entry.split(">")[0] for extra in extras for entry in listed[extra]}
    return {MODULES.get(package, package) for package in packages}


def installed_with(extra: str, *commands: str) -> subprocess.CompletedProcess[str]:
    """Runs commands in one process in which only the packages of `extra` are found."""
    parts = set(PROJECT["optional-dependencies"]) - {"all", "dev"}
    hidden = modules_of(parts) - modules_of(extra.split(",") if extra else ())
    words = [sys.executable, "-c", HIDE, ",".join(hidden), *commands]
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd="/")


def test_help_of_every_verb_needs_no_extra() -> None:
    ran = installed_with("", *(f"{verb} --help" for verb in VERBS))
    for verb in VERBS:
        assert f"exit code of {verb} --help: 0" in ran.stdout, ran.stderr
    assert ran.stderr == ""


def test_runbooks_need_the_base_and_what_is_missing_is_named(tmp_path: Path) -> None:
    build = f"build --out {tmp_path}"
    read = f"status --store {tmp_path}/store.db"
    ran = installed_with("", "runbook TrainingStraggler", read, "collector --port 0", build)
    assert "exit code of runbook TrainingStraggler: 0" in ran.stdout
    assert "## First five minutes" in ran.stdout
    lines = ran.stderr.splitlines()
    assert [line.partition(" needs ")[0] for line in lines] == [
        "stepwatch: status",
        "stepwatch: collector",
        "stepwatch: build",
    ]
    assert lines[0].endswith("pip install 'stepwatch[collector]'")
    assert lines[2].endswith("pip install 'stepwatch[build]'")


def test_build_needs_its_extra_alone(tmp_path: Path) -> None:
    ran = installed_with("build", f"build --out {tmp_path}")
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr
    assert len(list(tmp_path.iterdir())) >= 3


@pytest.mark.parametrize("verb", VERBS)
def test_no_extra_that_is_named_brings_what_the_verb_does_not_need(verb: str) -> None:
    named = [extra for extra in EXTRAS.get(verb, "").split(",") if extra]
    assert set(named) <= set(PROJECT["optional-dependencies"]) - {"all", "dev"}
    assert ("trainer" in named) == (verb in ("demo", "train")), "torch on a collector's host"
