"""Flags, files and defaults, and the errors for mistakes in them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from stepwatch.signals.errors import UsageError
from stepwatch.trainer.config.configure import as_flags, as_table, build_parser, configure
from stepwatch.trainer.config.mesh import MeshShape
from stepwatch.trainer.config.options import Options

TOML = """
[run]
steps = 12
[parallel]
mesh = {pp = 2, tp = 2}
[model]
compile = true
[optimizer]
lr = 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(TOML)
    return path


def test_a_flag_wins_over_the_file_and_the_file_over_the_default(file: Path) -> None:
    options, faults = configure(["--config", str(file), "--steps", "7", "--fault", "stop"], "test")
    assert options.run.steps == 7
    assert options.parallel.mesh == MeshShape(pp=2, tp=2)
    assert options.model.compile is True
    assert options.optimizer.lr == 1.0
    assert options.parallel.batch == Options().parallel.batch
    assert faults == ["stop"]


def test_the_flags_of_a_configuration_resolve_to_it(file: Path) -> None:
    options, _ = configure(["--config", str(file), "--data", "a b", "--compile", "no"], "test")
    assert configure(as_flags(options), "test")[0] == options


def test_every_option_is_in_one_section_and_has_a_help_line() -> None:
    names = [name for section in as_table(Options()).values() for name in section]
    assert len(names) == len(set(names))
    text = build_parser("stepwatch train").format_help()
    assert all("--" + name.replace("_", "-") in text for name in names)
    assert "example:" in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[modle]\n", "no section 'modle'; did you mean 'model'?"),
        ("[run]\nstep = 3\n", "no option 'step' in [run]; did you mean 'steps'?"),
        ("steps = 3\n", "no section 'steps'"),
        ("run = 3\n", "'run' is a section; write [run] above its keys"),
        ("[run]\nsteps = 1.5\n", "--steps 1.5 is not a whole number"),
        ("[run]\nsteps = true\n", "--steps True is not a whole number"),
        ("[parallel]\nmesh = 4\n", "is not a mesh, such as pp=2,dp_shard=2"),
        ("[parallel]\nmesh = {dp = 4}\n", "axes are pp, dp_replicate, dp_shard, tp"),
        ("[parallel\n", "is not TOML"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, content: str, reason: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(content)
    with pytest.raises(UsageError) as refusal:
        configure(["--config", str(path)], "test")
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--shedule", "1f1b"], "no option --shedule; did you mean '--schedule'?"),
        (["--schedule", "1f1bb"], "did you mean '1f1b'?"),
        (["--compile", "perhaps"], "'perhaps' is not true or false"),
        (["extra"], "unexpected argument 'extra'"),
        (["--steps"], "expected one argument"),
        (["--config", "/nowhere.toml"], "cannot read /nowhere.toml"),
    ],
)
def test_mistakes_in_flags_are_named(flags: list[str], reason: str) -> None:
    with pytest.raises(UsageError) as refusal:
        configure(flags, "test")
    assert reason in str(refusal.value)


def test_options_cannot_be_changed_afterwards() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().run.steps = 3  # type: ignore[misc]
