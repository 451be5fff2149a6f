"""The command itself: its version, and where every verb finds the collector."""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import subprocess

import pytest

from stepwatch import signals
from stepwatch.cli.main import VERBS, load_verb, main
from stepwatch.cli.source import source_words
from stepwatch.hooks.core import CORE


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    installed = importlib.metadata.version("stepwatch")
    assert main([flag]) == 0
    assert capsys.readouterr().out == f"stepwatch {installed}, hooks on the {CORE} core\n"
    assert signals.__version__ == installed
    assert not hasattr(signals, "no_such_name")


def test_help_is_a_verb_of_which_each_verb_is_an_argument(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: stepwatch VERB")
    assert max(map(len, shown.splitlines())) < 80
    with pytest.raises(SystemExit) as ended:
        main(["help", "status"])
    assert not ended.value.code and "usage: stepwatch status" in capsys.readouterr().out
    assert main(["help", "statu"]) == 2
    assert "did you mean 'status'?" in capsys.readouterr().err


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_fits_a_narrow_terminal(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    if verb == "train":
        pytest.skip("its help is that of the trainer, which needs torch")
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80 and not line.startswith("example: ")] == []


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_every_verb(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("shtab", reason="the script is made by shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(verb in script for verb in VERBS) and "--collector" in script
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed: the script was not parsed")
    assert subprocess.run([program, "-n"], input=script, text=True).returncode == 0


def test_the_variable_names_the_collector_of_every_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWATCH_COLLECTOR", "http://head:9000")
    asking = []
    for verb in VERBS:
        parser = argparse.ArgumentParser()
        load_verb(verb).add_arguments(parser)
        if "--collector" in parser._option_string_actions:
            asking.append(verb)
            assert parser.get_default("collector") == "http://head:9000", verb
    assert asking == [
        "agent",
        "status",
        "diagnose",
        "postmortem",
        "incidents",
        "silence",
        "nodes",
        "runbook",
        "checklist",
        "slo",
        "checkpoints",
        "metrics",
        "track",
        "profile",
        "report",
        "compare",
        "simulate",
        "doctor",
    ]
    arguments = argparse.Namespace(
        store=None, collector="http://head:9000", token_file=None, ca=None
    )
    assert source_words(arguments) == "", "a command printed for this shell needs no option"
    monkeypatch.delenv("STEPWATCH_COLLECTOR")
    assert source_words(arguments) == "--collector http://head:9000"
