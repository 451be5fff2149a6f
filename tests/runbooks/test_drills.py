"""Pages name only existing things: commands that parse, faults, and causes."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from stepwatch import runbooks
from stepwatch.cli.demo.plan import DRILLED
from stepwatch.cli.main import load_verb
from stepwatch.collector.incidents.attribution import RULES
from stepwatch.faults import FAULTS, parse_fault
from stepwatch.runbooks import placeholders
from stepwatch.signals.arguments import Parser
from stepwatch.signals.names import ALERT_OF, Cause, FindingKind
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.validation import validate_faults
from tests.runbooks.commands.pages import every_page

VALUES = {name: "0" if name == "attempt" else f"{name}-1" for name in placeholders.NAMES}


def commands(name: str, family: runbooks.Family = runbooks.RUNBOOKS) -> Iterator[list[str]]:
    """Words of each `stepwatch` command in code on a page."""
    for _, text in placeholders.code(runbooks.render(name, VALUES, family=family)):
        for line in text.splitlines():
            if re.match(r"\s*stepwatch [a-z]", line):
                yield shlex.split(line)[1:]


@every_page
def test_every_command_is_one_that_its_verb_takes(name: str, family: runbooks.Family) -> None:
    ring_commands = [
        words for words in commands(name, family) if words[0] not in ("agent", "collector")
    ]
    assert ring_commands
    for verb, *words in ring_commands:
        parser = Parser(prog=verb, allow_abbrev=False)
        load_verb(verb).add_arguments(parser)
        assert isinstance(parser.parse_args(words), argparse.Namespace)


@pytest.mark.parametrize("name", runbooks.names())
def test_the_drill_has_a_fault_that_exists(name: str) -> None:
    drill = runbooks.load(name).markdown.split("## Last drill")[1]
    faults = [parse_fault(text) for text in re.findall(r"--fault ([^\s`)]+)", drill)]
    assert any(faults) or "by hand" in drill.lower(), "name a fault, or say that it is done by hand"


@pytest.mark.parametrize("name", runbooks.names())
def test_a_demo_that_is_a_drill_runs_as_written(name: str) -> None:
    for verb, *words in commands(name):
        if verb != "demo":
            continue
        parser = Parser(prog=verb, allow_abbrev=False)
        load_verb(verb).add_arguments(parser)
        texts = parser.parse_args(words).fault or []
        assert {text.split(":")[0] for text in texts} <= {*DRILLED, "none"}
        validate_faults(Options(), [fault for fault in map(parse_fault, texts) if fault])


def test_a_drill_of_the_verdicts_is_a_case_that_exists() -> None:
    pages = "".join(runbooks.load(name).markdown for name in runbooks.names())
    cases = re.findall(r"make verdicts ARGS=\"--only ([\w-]+)", pages)
    assert sorted(cases) == ["skewed-shard", "wrong-order"]
    assert set(cases) <= set(FAULTS)


def test_a_page_explains_each_fact_of_a_node() -> None:
    missing = [
        (page, rule.cause.value)
        for rule in RULES
        for page in {ALERT_OF[FindingKind(fit.split(":")[0])] for fit in rule.fits}
        if f"`{rule.cause.value}`" not in runbooks.load(page).markdown
    ]
    assert missing == []


def test_every_cause_is_on_some_page() -> None:
    written = "".join(runbooks.load(name).markdown for name in runbooks.names())
    assert [cause.value for cause in Cause if f"`{cause.value}`" not in written] == []
