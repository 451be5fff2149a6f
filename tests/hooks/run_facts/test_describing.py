"""What a run is made of: written once, by rank 0, without secrets."""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.hooks import Watch
from stepwatch.hooks.run_facts import flatten as flattening
from stepwatch.hooks.run_facts.describing import MOST_RECORDS
from stepwatch.hooks.run_facts.finders import FINDERS, commit_of, environment
from stepwatch.hooks.run_facts.flatten import MOST_FACTS, UNREADABLE, flatten
from stepwatch.signals.records import Fact, Kind, LifecycleEvent, piece_texts, read_fact
from stepwatch.signals.secrets import WITHHELD
from tests.hooks.conftest import rows_in


def facts_in(rings: Path) -> dict[str, str]:
    """Facts of the one ring, each put together from its pieces."""
    rows = rows_in(rings, Kind.LIFECYCLE)
    rows = rows[rows["event"] == LifecycleEvent.FACT]
    texts: list[list[str]] = []
    for index, text in zip(rows["value"].tolist(), rows["text"].tolist(), strict=True):
        if index == 0:
            texts.append([])
        assert index == len(texts[-1])
        texts[-1].append(text.decode())
    return dict(map(read_fact, texts))


def test_settings_are_written_after_the_first_step_and_versions_without_being_asked(
    watch: Watch, rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_ALGO", "Ring")
    monkeypatch.setenv("STEPWATCH_COMMIT", "abc123")
    watch.describe(config={"lr": 0.1, "model": {"layers": 2}}, data={"set": "pile"})
    assert facts_in(rings) == {}, "the rank may still change"
    for _ in range(2):
        with watch.step():
            pass
    facts = facts_in(rings)
    assert facts["config.lr"] == "0.1" and facts["config.model.layers"] == "2"
    assert facts["data.set"] == "pile" and facts["code.commit"] == "abc123"
    assert facts["environment.NCCL_ALGO"] == "Ring"
    assert facts["environment.python"] == ".".join(map(str, sys.version_info[:3]))
    watch.describe(config={"lr": 0.2}, model={"flops_per_token": 6e9, "api_token": "abc"})
    fresh = {"model.flops_per_token": "6000000000.0", "model.api_token": WITHHELD}
    assert facts_in(rings) == {**facts, "config.lr": "0.2", **fresh}
    assert watch.guard.errors == 0


def test_other_ranks_write_nothing(monkeypatch: pytest.MonkeyPatch, rings: Path) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    watch = Watch.from_env(job="job")
    watch.describe(config={"lr": 0.1})
    with watch.step():
        pass
    watch.close()
    assert facts_in(rings) == {}


class Hostile(dict[str, Any]):
    """A mapping that fails when it is read."""

    def items(self) -> Any:
        raise RuntimeError("no")


def test_nothing_that_is_described_hurts_the_trainer(watch: Watch, rings: Path) -> None:
    watch.describe(configuration={"lr": 1})
    assert watch.guard.errors == 1
    watch.describe(config=Hostile(a=1), data={"set": Hostile(b=2), "size": 3})
    loop: dict[str, Any] = {}
    loop["again"] = loop
    watch.describe(config=loop)
    watch.describe(config={str(number): number for number in range(10 * MOST_FACTS)})
    with watch.step():
        pass
    facts = facts_in(rings)
    assert (facts["config"], facts["data.set"], facts["data.size"]) == (*[UNREADABLE] * 2, "3")
    assert 0 < sum(name.startswith("config.") for name in facts) <= MOST_FACTS + 1
    watch.close()
    watch.describe(config={"lr": 1})


class Colour(Enum):
    """An enumeration in a configuration."""

    RED = "red"


@dataclasses.dataclass
class Optimizer:
    """A dataclass in a configuration."""

    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.95)


def test_whatever_holds_settings_is_taken_apart() -> None:
    values = argparse.Namespace(optimizer=Optimizer(), colour=Colour.RED, hook=print, none=None)
    assert dict(flatten(values, "config")) == {
        "config.optimizer.lr": "0.1",
        "config.optimizer.betas": "[0.9, 0.95]",
        "config.colour": "red",
        "config.hook": "<builtins.builtin_function_or_method>",
        "config.none": "None",
    }
    sets = [dict(flatten({"set": {"b", "a", "c"}}, "data")) for _ in range(2)]
    assert sets[0] == sets[1] == {"data.set": "[a, b, c]"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hub_token", "x"),
        ("wandb.api_key", "x"),
        ("password", "x"),
        ("storage.secretKey", "x"),
        ("credentials.value", "x"),
        ("secrets.db", "x"),
        ("s3.secret.value", "x"),
        ("token.hub", "x"),
        ("passwords", ["x"]),
        ("tokens", "x"),
        ("accessToken", "x"),
        ("clientSecret", "x"),
        ("hftoken", "x"),
        ("pwd", "x"),
        ("db_pass", "x"),
        ("wandb_key", "x"),
        ("sshKey", "x"),
        ("password", 1234),
    ],
)
def test_secrets_are_withheld(name: str, value: Any) -> None:
    ((_, text),) = flatten({name: value}, "config")
    assert text == WITHHELD


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("url", "postgresql://me:hunter2@db/runs", "hunter2"),
        ("note", "use hf_abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
        ("keys", ["AKIAABCDEFGHIJKLMNOP"], "ABCDEFGHIJKLMNOP"),
        ("note", "-----BEGIN OPENSSH PRIVATE KEY-----", "OPENSSH"),
        ("note", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc", "eyJzdWIiOiIxMjM0In0"),
        ("header", "Authorization: Bearer abcdefghijk", "abcdefghijk"),
        ("dsn", "host=db;User=me;Password=hunter2", "hunter2"),
        ("args", "--hf_token=abc", "abc"),
        ("url", "https://x/?token=abc", "abc"),
        ("url", "postgres://u:p/w@h", "p/w"),
        ("note", "github_pat_0123456789abcdef", "0123456789abcdef"),
        ("note", "ghs_0123456789abcdef", "0123456789abcdef"),
        ("note", "AIzaSyA0123456789abcdefghijk", "0123456789abcdefghijk"),
        ("note", "ASIAABCDEFGHIJKLMNOP", "ABCDEFGHIJKLMNOP"),
    ],
)
def test_texts_of_the_form_of_a_secret_are_withheld(name: str, value: Any, secret: str) -> None:
    ((_, text),) = flatten({name: value}, "config")
    assert secret not in text and "(withheld" in text


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "tokenizer",
        "tokenizer.path",
        "pad_token_id",
        "sort_key",
        "partition_key",
        "keys",
        "author",
        "flops_per_token",
        "tokens",
        "forward_pass",
        "pass_rate",
        "bypass",
    ],
)
def test_settings_that_are_no_secrets_are_kept(name: str) -> None:
    assert dict(flatten({name: 1}, "config")) == {f"config.{name}": "1"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.int64(6), "6"),
        (np.float32(0.5), "0.5"),
        (np.array(7), "7"),
        (np.array([2.0]), "2.0"),
        (Decimal("6e9"), "6E+9"),
        ("6e9", "6e9"),
        (np.dtype("float32"), "float32"),
        (SimpleNamespace(item=lambda: 3, shape=(), device=SimpleNamespace(type="cpu")), "3"),
        (SimpleNamespace(item=lambda: 3, shape=(4,)), "<types.SimpleNamespace>"),
    ],
)
def test_numbers_of_any_library_are_numbers(value: Any, text: str) -> None:
    assert dict(flatten({"size": value}, "model")) == {"model.size": text}
    per_token = dict(flatten({"flops_per_token": value}, "model"))["model.flops_per_token"]
    assert per_token == (text if text[0].isdigit() else WITHHELD)


def test_a_tensor_on_a_device_is_not_waited_for() -> None:
    def waits() -> float:
        raise AssertionError("it was read")

    tensor = SimpleNamespace(item=waits, shape=(), device=SimpleNamespace(type="cuda"))
    assert dict(flatten({"scale": tensor}, "model")) == {"model.scale": "<types.SimpleNamespace>"}


def test_types_of_torch_say_what_they_are() -> None:
    torch = pytest.importorskip("torch")
    facts = dict(flatten({"dtype": torch.bfloat16, "device": torch.device("cpu")}, "model"))
    assert facts == {"model.dtype": "torch.bfloat16", "model.device": "cpu"}


class Counted(list[int]):
    """A list that counts how many of its elements were read."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        values = super().__getitem__(place)
        Counted.reads += len(values) if isinstance(place, slice) else 1
        return values

    def __iter__(self) -> Any:
        raise AssertionError("all of it is read")


def test_of_a_long_list_little_is_read() -> None:
    ((_, text),) = flatten({"seeds": Counted(range(100_000))}, "data")
    assert Counted.reads <= 256
    assert "sha256" in text
    ((_, digest_text),) = flatten({"seeds": Counted(range(100_001))}, "data")
    assert digest_text != text, "its length is in the digest"


def test_a_set_too_large_to_sort_is_its_type() -> None:
    assert dict(flatten({"ids": set(range(10_000))}, "data")) == {"data.ids": "<builtins.set>"}


def test_a_long_text_is_looked_at_at_both_ends() -> None:
    long = "a" * 50_000
    texts = [long, "b" + long[1:], long[:-1] + "b", long + "a"]
    shown = {text for text_value in texts for _, text in flatten({"prompt": text_value}, "data")}
    assert len(shown) == 4


def test_a_list_in_itself_costs_one_setting() -> None:
    loop: list[Any] = []
    loop.append(loop)
    facts = dict(flatten({"before": 1, "loop": loop, "after": 2}, "config"))
    assert (facts["config.before"], facts["config.after"]) == ("1", "2")


def test_what_is_found_costs_nobody_what_was_described(
    watch: Watch, rings: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(environ: Any) -> Any:
        yield "python", "3"
        raise RuntimeError("no device")

    monkeypatch.setitem(FINDERS, "environment", fails)
    removed_folder = tmp_path / "gone"
    removed_folder.mkdir()
    monkeypatch.chdir(removed_folder)
    removed_folder.rmdir()
    watch.describe(config={"lr": 0.1}, owner={"team": "vision"})
    with watch.step():
        pass
    facts = facts_in(rings)
    assert (facts["config.lr"], facts["owner.team"]) == ("0.1", "vision")
    assert "code.script" in facts and "environment.python" not in facts
    assert watch.guard.errors == 1


def test_more_than_a_ring_may_hold_is_left_out_and_said(
    watch: Watch, rings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    many = {f"setting_{number}": "x" * 100 for number in range(MOST_FACTS)}
    watch.describe(**dict.fromkeys(("config", "data", "model", "code"), many))
    with watch.step():
        pass
    rows = rows_in(rings, Kind.LIFECYCLE)
    assert (rows["event"] == LifecycleEvent.FACT).sum() <= MOST_RECORDS
    assert (rows["event"] == LifecycleEvent.START).sum() == 1
    assert "settings are left out" in caplog.text


def test_a_fact_of_any_alphabet_keeps_its_digest() -> None:
    for value in ("ü" * 500, "模" * 500, "🙂" * 500):
        ((name, text),) = flatten({"prompt": value}, "data")
        assert read_fact(piece_texts((name, text))).value.endswith(text[-20:])


def test_a_long_text_shows_that_it_changed_at_its_end() -> None:
    ((_, first_value),) = flatten({"prompt": "x" * 5000}, "config")
    ((_, second_value),) = flatten({"prompt": "x" * 4999 + "y"}, "config")
    assert (
        first_value != second_value
        and max(len(first_value), len(second_value)) <= flattening._VALUE_SIZE
    )


@given(st.text(max_size=80), st.text(max_size=120))
def test_a_fact_survives_its_pieces(name: str, value: str) -> None:
    texts = piece_texts((name, value))
    fact = read_fact(texts)
    assert all(len(text.encode("utf-8", "replace")) <= 56 for text in texts)
    expected = Fact(name.replace("\t", " "), value.replace("\t", " "))
    if len(texts) < 8:
        assert fact == expected
    else:
        assert "\t".join(expected).startswith("\t".join(fact))


def git(folder: Path, *words: str) -> str:
    """What Git prints."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    process = subprocess.run(
        ["git", "-C", str(folder), *settings, *words],
        env=clean,
        check=True,
        capture_output=True,
        text=True,
    )
    return process.stdout.strip()


def test_the_commit_is_read_as_git_would(tmp_path: Path) -> None:
    assert commit_of(tmp_path / "nowhere") == ""
    main = tmp_path / "main"
    inside = main / "a" / "b"
    inside.mkdir(parents=True)
    git(main, "init", "-q", "-b", "trunk")
    assert commit_of(inside) == "", "there is no commit yet"
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    head = git(main, "rev-parse", "HEAD")
    assert commit_of(inside) == head
    git(main, "pack-refs", "--all")
    assert commit_of(inside) == head
    git(main, "worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "two")
    other_head = git(tmp_path / "other", "rev-parse", "HEAD")
    assert commit_of(tmp_path / "other") == other_head != head
    git(main, "checkout", "-q", "--detach")
    assert commit_of(inside) == head
    (main / ".git" / "HEAD").write_bytes(b"\xff not a head")
    assert commit_of(inside) == ""


def test_only_settings_of_libraries_are_taken_from_the_environment() -> None:
    environ = {
        "NCCL_DEBUG": "INFO",
        "NCCL_COMM_ID": "10.0.0.1:2",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HOME": "/h",
    }
    settings = dict(environment(environ))
    assert settings["NCCL_DEBUG"] == "INFO" and not {*environ} - {"NCCL_DEBUG"} & {*settings}
