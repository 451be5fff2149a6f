"""Every command of every page. Those of stepwatch run against a collector with such an incident
open; those of other tools are only parsed and compared with a list of options.

`stepwatch demo` and `stepwatch train` do not run here either, since a drill takes minutes:
`test_drills.py` parses them and their faults.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from stepwatch import runbooks
from stepwatch.cli.main import OK, PROBLEM, main
from stepwatch.signals import places
from stepwatch.signals.names import ALERT_ABOUT, ALERT_OF, FindingKind
from tests.collector.made import JOB
from tests.collector.process import Process
from tests.runbooks.commands import open_incidents
from tests.runbooks.commands.page_commands import Command, commands_of, simple_commands
from tests.runbooks.commands.pages import every_page
from tests.runbooks.commands.tools import NOT_COMMANDS, TOOLS, problems

STEPWATCH = "stepwatch"
DRILLS = ("demo", "train")
ANSWERS = {
    "blackbox": {OK},
    "checkpoints": {OK, PROBLEM},
    "compare": {OK},
    "doctor": {OK, PROBLEM},
    "incidents": {PROBLEM},
    "nodes": {OK},
    "report": {OK},
    "runbook": {OK},
    "slo": {OK},
    "status": {PROBLEM},
}
"""Exit codes of each verb on pages, with an open incident, no spent budget and no failed node; the
result of `doctor` depends on the machine that runs the test.
"""
ALERT_KINDS = {alert: kind for kind, alert in ALERT_OF.items()} | {
    alert: kinds[0] for alert, kinds in ALERT_ABOUT.items() if kinds
}


class OpenIncidents(NamedTuple):
    """A collector that answers, and the id of its open incident of each kind."""

    url: str
    incidents: dict[FindingKind, str]


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIncidents]:
    """Yield a collector that does not evaluate during the tests, so that incidents stay open."""
    folder = tmp_path_factory.mktemp("watched")
    process = Process(folder, interval=3600.0)
    incidents = open_incidents.store_with_every_kind(process.store)
    try:
        process.start()
        process.wait_ready()
        yield OpenIncidents(process.url, incidents)
    finally:
        process.end()


@pytest.fixture
def on_call(
    collector: OpenIncidents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[OpenIncidents]:
    """A shell on a node of the job: its rings, and the file of an earlier run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(places.ENV_COLLECTOR, collector.url)
    monkeypatch.setenv(places.ENV_RING_DIR, str(tmp_path / "rings"))
    open_incidents.ring_of_the_job(tmp_path / "rings")
    assert main(["compare", JOB, "--save", "baseline.json"]) == OK
    yield collector


def is_run(command: Command) -> bool:
    """Return whether a command is stepwatch's and complete as shown, and is not a drill."""
    words = command.text.split()
    if words[0] != STEPWATCH or words[1] in DRILLS:
        return False
    return command.is_fenced or "--collector" in words


@every_page
def test_every_stepwatch_command_of_a_page_runs(
    name: str,
    family: runbooks.Family,
    on_call: OpenIncidents,
    capsys: pytest.CaptureFixture[str],
) -> None:
    incident = on_call.incidents[ALERT_KINDS.get(name, FindingKind.STRAGGLER)]
    words = family.listed_by.split()[1:]
    words += [name, "--incident", incident, "--collector", on_call.url]
    capsys.readouterr()
    assert main(words) == OK
    page = capsys.readouterr().out
    commands = [command for command in commands_of(page) if is_run(command)]
    assert len(commands) >= 2
    run_all(name, commands, capsys)


def run_all(page: str, commands: list[Command], capsys: pytest.CaptureFixture[str]) -> None:
    """Run a page's commands; each must exit as its verb documents, and print text."""
    for command in commands:
        _, verb, *arguments = shlex.split(command.text)
        code = main([verb, *arguments])
        captured = capsys.readouterr()
        where = f"{page}:{command.line}: {command.text}\n{captured.err}"
        assert code in ANSWERS[verb], where
        assert captured.out.strip() and not captured.err, where
        assert "no rings below" not in captured.out, where


@every_page
def test_every_command_of_another_tool_is_one_that_it_takes(
    name: str, family: runbooks.Family
) -> None:
    assert list(wrong(name, runbooks.load(name, family=family).markdown)) == []


def wrong(page: str, markdown: str) -> Iterator[str]:
    """Yield the problems with commands of other tools on a page."""
    for line, text, is_fenced in commands_of(markdown):
        first = text.split()[0]
        if text in NOT_COMMANDS and not is_fenced:
            continue
        if not is_fenced and first not in TOOLS and first != STEPWATCH:
            yield f"{page}:{line}: {text!r}: no tool, and not among not_commands"
            continue
        for words in simple_commands(text):
            if words[0] != STEPWATCH:
                yield from (f"{page}:{line}: {problem}" for problem in problems(words))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nvidia-smy -q", "nvidia-smy: no such tool in tools.toml"),
        ("uptime; nvidia-smi -q -d ECK", "nvidia-smi: -d takes no 'ECK'"),
        ("nvidia-smi --query-gpu=clock --format=csv", "nvidia-smi: --query-gpu takes no 'clock'"),
        ("dmesg -T | grep -iZ xid", "grep: no option -iZ"),
        ("scontrol drain NodeName=n1", "scontrol: none of ['drain', 'NodeName=n1']"),
        ("scontrol update Node=n1 State=DRAIN", "scontrol: no key 'node'"),
        ("timeout 60 dd from=/dev/zero of=x", "dd: no key 'from'"),
    ],
)
def test_a_wrong_command_is_found(text: str, problem: str) -> None:
    problems = list(wrong("Any", f"```sh\n{text}\n```\n"))
    assert len(problems) == 1 and problems[0].startswith(f"Any:2: {problem}")


def test_each_tool_has_a_source() -> None:
    assert [name for name, tool in TOOLS.items() if not tool.get("source")] == []
