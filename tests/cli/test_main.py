"""The command itself: its version, and where every verb finds the collector."""

from __future__ import annotations

import argparse
import importlib.metadata

import pytest

from stepwatch import signals
from stepwatch.cli.main import VERBS, load_verb, main
from stepwatch.cli.source import source_words


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    installed = importlib.metadata.version("stepwatch")
    assert main([flag]) == 0
    assert capsys.readouterr().out == f"stepwatch {installed}\n"
    assert signals.__version__ == installed
    assert not hasattr(signals, "no_such_name")


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
        "report",
        "compare",
        "simulate",
        "doctor",
    ]
    given = argparse.Namespace(store=None, collector="http://head:9000", token_file=None, ca=None)
    assert source_words(given) == "", "a command printed for this shell needs no option"
    monkeypatch.delenv("STEPWATCH_COLLECTOR")
    assert source_words(given) == "--collector http://head:9000"
