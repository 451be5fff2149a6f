"""Input that claims anything: it is unknown or damaged, and nothing is allocated or hangs."""

from __future__ import annotations

import json
import os
import struct
import sys
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stepwatch.agent.checkpoints import (
    Limits,
    Options,
    Report,
    State,
    Weight,
    supervised,
    verify_supervised,
)
from stepwatch.agent.checkpoints.formats.torch_legacy import MAGIC
from stepwatch.agent.checkpoints.reading import Session, Window
from stepwatch.agent.checkpoints.verification import verify
from tests.other_users import OTHER, give_away, needs_root

from .conftest import Copy
from .damages import append, flip, lose
from .written import SETTLED, safetensors_file, tensors, torch_file, verified

SPARSE = 200_000_000_000
END_OF_ZIP = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 9, 9, 1 << 31, 5, 0)


def reasons(report: Report) -> str:
    return "\n".join(f"{p.weight} {p.file}: {p.reason}" for p in report.problems)


def sparse(path: Path, head: bytes, tail: bytes = b"") -> Path:
    """Write 200 GB of holes between two ends."""
    with path.open("wb") as file:
        file.write(head)
        file.seek(SPARSE - len(tail))
        file.write(tail)
        file.truncate(SPARSE)
    return path


def sparse_safetensors(path: Path) -> Path:
    """Write a whole file of 200 GB by its header."""
    size = SPARSE - 4096
    entry = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    text = json.dumps({"weight": entry}).encode().ljust(4096 - 8)
    return sparse(path, struct.pack("<Q", len(text)) + text)


def test_a_sparse_file_is_read_without_allocation_until_the_deadline(tmp_path: Path) -> None:
    path = sparse_safetensors(tmp_path / "model.safetensors")
    tracemalloc.start()
    report = verify(str(path), Options(timeout_s=0.3))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.state == State.UNKNOWN and "the time ended after" in reasons(report)
    assert 0 < report.bytes_read < SPARSE
    assert peak < 64 << 20


@pytest.mark.parametrize(
    ("name", "head", "tail"),
    [
        ("model.pt", b"", b""),
        ("model.pt", b"PK\x03\x04", b""),
        ("model.pt", b"PK\x03\x04", END_OF_ZIP),
        ("model.pt", MAGIC + b"\x80\x02\x8d" + b"\xff" * 7 + b"\0", b""),
        ("model.pkl", b"\x80\x04\x8e" + b"\xff" * 7 + b"\0", b""),
        ("model.safetensors", struct.pack("<Q", 1 << 36), b""),
        ("model.safetensors", struct.pack("<Q", 1 << 63), b""),
        ("model.json", b"{", b"}"),
        (".metadata", b"\x80\x04\x96" + b"\xff" * 6 + b"\0\0", b""),
    ],
)
def test_a_claimed_size_is_never_allocated(
    name: str, head: bytes, tail: bytes, tmp_path: Path
) -> None:
    sparse(tmp_path / name, head, tail)
    tracemalloc.start()
    report = verify(str(tmp_path), Options(timeout_s=0.2, limits=SETTLED))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.state in (State.DAMAGED, State.UNKNOWN)
    assert peak < 64 << 20


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    torch_file(tmp_path, tensors("weights"))
    (tmp_path / "itself").symlink_to(tmp_path / "itself")
    (tmp_path / "above").symlink_to(tmp_path)
    (tmp_path / "lost.pt").symlink_to(tmp_path / "no-such-file")
    report = verified(tmp_path)
    assert report.state == State.DAMAGED and report.files == 1
    assert "damage itself: it is a link in a circle" in reasons(report)
    assert "damage lost.pt: it is a link, and its target is missing" in reasons(report)


def test_a_link_to_a_file_is_read_once(tmp_path: Path) -> None:
    path = torch_file(tmp_path, tensors("weights"))
    (tmp_path / "last.pt").symlink_to(path)
    report = verified(tmp_path)
    assert report.state == State.VERIFIED and report.files == 2
    assert report.bytes_read == path.stat().st_size


def test_a_folder_without_permission_is_unknown(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    torch_file(tmp_path, tensors("weights")).chmod(0)
    assert verified(tmp_path).state == State.UNKNOWN


def test_an_unreadable_file_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_file(tmp_path, tensors("weights"))

    def refuse(path: str, owner: int | None) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("stepwatch.agent.checkpoints.verification.open_regular", refuse)
    report = verified(tmp_path)
    assert report.state == State.UNKNOWN and "no permission" in reasons(report)


def test_special_files_are_not_opened(tmp_path: Path) -> None:
    torch_file(tmp_path, tensors("weights"))
    os.mkfifo(tmp_path / "pipe.pt")
    report = verified(tmp_path)
    assert report.state == State.VERIFIED and "notice pipe.pt: it is a pipe" in reasons(report)
    assert verified(tmp_path / "pipe.pt").state == State.UNKNOWN


def test_a_path_that_is_not_there_or_no_checkpoint_is_unknown(tmp_path: Path) -> None:
    assert verified(tmp_path / "none").state == State.UNKNOWN
    assert "no checkpoint is recognized" in reasons(verified(tmp_path))
    (tmp_path / "notes.txt").write_text("nothing")
    assert verified(tmp_path).state == State.UNKNOWN


def test_damage_in_a_folder_that_changes_is_unknown(copy_of: Copy) -> None:
    path = copy_of("huggingface")
    lose(path / "optimizer.pt")
    report = verify(str(path))
    assert report.state == State.UNKNOWN and "may still be being written" in reasons(report)
    hour_ago = time.time() - 3600
    for file in (*path.iterdir(), path):
        os.utime(file, (hour_ago, hour_ago))
    assert verify(str(path)).state == State.DAMAGED


def test_another_checkpoint_that_is_written_excuses_no_damage(copy_of: Copy) -> None:
    path = copy_of("output-folder")
    flip(0.5)(path / "checkpoint-40/optimizer.pt")
    hour_ago = time.time() - 3600
    for file in (*(path / "checkpoint-40").iterdir(), path / "checkpoint-40"):
        os.utime(file, (hour_ago, hour_ago))
    report = verify(str(path))
    assert report.state == State.DAMAGED
    assert "damage checkpoint-40/optimizer.pt" in reasons(report)


def test_temporary_files_mean_that_a_save_goes_on_or_was_broken_off(copy_of: Copy) -> None:
    path = copy_of("huggingface")
    temporary = path / "model-00009.safetensors.tmp"
    temporary.write_bytes(b"half")
    report = verify(str(path))
    assert report.state == State.UNKNOWN and "it is being written" in reasons(report)
    os.utime(temporary, (1.0, 1.0))
    report = verify(str(path))
    assert report.state == State.VERIFIED and "did not end left it" in reasons(report)


def test_a_file_that_grows_while_it_is_read_is_unknown(
    copy_of: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy_of("torch")
    original = Session.account

    def grow(self: Session, count: int, name: str) -> None:
        append(b"x")(path)
        original(self, count, name)

    monkeypatch.setattr(Session, "account", grow)
    report = verified(path)
    assert report.state == State.UNKNOWN and "it changed while it was read" in reasons(report)


@pytest.mark.parametrize(
    ("name", "text", "form"),
    [
        ("config.json", json.dumps({"hub": {"api_key": "k3y8Zq0pLx9vB2nM"}}), "api_key"),
        ("run.yaml", "lr: 3\nwandb_api_key: 0123456789abcdef0123456789abcdef01234567\n", "api_key"),
        ("notes.md", "see ghp_" + "a1B2" * 9 + " for it", "GitHub"),
        ("env.sh", "export URL=https://me:hush-hush@host/x", "password in a URL"),
    ],
)
def test_a_secret_is_noticed(name: str, text: str, form: str, copy_of: Copy) -> None:
    path = copy_of("adapter")
    (path / name).write_text(text)
    report = verified(path)
    assert report.state == State.VERIFIED
    assert f"notice {name}: it holds a secret" in reasons(report) and form in reasons(report)


def test_a_secret_in_a_pickle_is_noticed(tmp_path: Path) -> None:
    torch.save({"args": {"hub_token": "hf_" + "aB3dE5gH" * 4 + "xy"}}, tmp_path / "args.pt")
    assert "its pickle holds a secret" in reasons(verified(tmp_path))


def test_digests_find_a_changed_bit_in_a_format_without_checksums(tmp_path: Path) -> None:
    path = safetensors_file(tmp_path, tensors("weights"))
    digests = verified(path, digests=True).digests
    assert verified(path, expected=digests).state == State.VERIFIED
    flip(0.7)(path)
    assert verified(path).state == State.VERIFIED
    report = verified(path, expected=digests)
    assert report.state == State.DAMAGED and "does not match its digest" in reasons(report)
    path.unlink()
    torch_file(tmp_path, tensors("weights"))
    assert "it is missing; the earlier manifest" in reasons(verified(tmp_path, expected=digests))


def test_unlisted_functions_are_unknown_and_unlisted_types_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "state.pkl").write_bytes(b"cmylib.tools\nrebuild\n(I1\ntR.")
    report = verified(tmp_path)
    assert report.state == State.UNKNOWN and "mylib.tools.rebuild" in reasons(report)
    (tmp_path / "state.pkl").write_bytes(b"\x80\x02cmylib.tools\nConfig\n)\x81.")
    report = verified(tmp_path)
    assert report.state == State.VERIFIED and "notice" in reasons(report)


@pytest.mark.parametrize("count", [0, 1, 30, 31])
def test_nested_references_cost_no_time(count: int, tmp_path: Path) -> None:
    """Each tuple holds the previous one twice: 2^31 leaves, if they were visited."""
    body = b"".join(b"q%c" % n + b"h%c" % n + b"h%c" % n + b"\x86" for n in range(count))
    (tmp_path / "bomb.pkl").write_bytes(b"\x80\x02)" + body + b".")
    assert verified(tmp_path).state == State.VERIFIED


def test_the_rate_is_kept() -> None:
    now_s = 100.0
    pauses: list[float] = []
    session = Session(rate=1000.0, clock=lambda: now_s, pause=pauses.append)
    session.account(500, "file")
    assert pauses == [0.5]
    assert session.chunk_bytes == 65536
    assert Session().chunk_bytes == Limits().chunk_bytes


def test_a_process_of_its_own_gives_the_same_report(tmp_path: Path) -> None:
    path, seen = torch_file(tmp_path, tensors("weights")), list[str]()
    options = Options(timeout_s=60.0, digests=True, limits=SETTLED)
    report = verify_supervised(str(path), options, lambda count, total, name: seen.append(name))
    here = verify(str(path), options)
    assert replace(report, seconds=0.0) == replace(here, seconds=0.0)
    assert report.state == State.VERIFIED and {*seen} == {path.name}


def test_a_storage_that_hangs_is_unknown_and_its_reader_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that reports progress and never ends stands for a lost file server."""
    stuck = tmp_path / "stuck"
    line = json.dumps({"progress": [5, 9, "model.pt"]})
    stuck.write_text(f"#!/bin/sh\necho '{line}'\nexec sleep 1000\n")
    stuck.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stuck))
    monkeypatch.setattr(supervised, "_GRACE_SECONDS", 0.3)
    report = verify_supervised("model.pt", Options(timeout_s=0.2))
    assert report.state == State.UNKNOWN and report.bytes_read == 5
    assert reasons(report) == "unknown model.pt: the storage does not answer"


def test_a_process_that_fails_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    report = verify_supervised("model.pt", Options(timeout_s=10.0))
    assert report.state == State.UNKNOWN and "exit code 1" in reasons(report)


def test_a_window_ends_where_it_says(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    window = Window(descriptor, "file", 2, 5)
    assert (window.read(0, 9), window.read(4, 9), window.read(5, 1)) == (b"23456", b"6", b"")
    assert window.part(1, 2).read(0, 9) == b"34"
    os.close(descriptor)


def test_problems_are_bounded(tmp_path: Path) -> None:
    torch.save({str(n): torch.ones(64, 64) for n in range(20)}, tmp_path / "a.pt")
    path = tmp_path / "a.pt"
    data = bytearray(path.read_bytes())
    data[8192 : len(data) - 16384] = bytes(len(data) - 24576)
    path.write_bytes(data)
    report = verified(path)
    assert report.state == State.DAMAGED and len(report.problems) <= 6
    assert {problem.weight for problem in report.problems} == {Weight.DAMAGE}


@needs_root
def test_with_an_owner_only_that_users_files_and_folders_are_read(
    copy_of: Copy, tmp_path: Path
) -> None:
    path = give_away(copy_of("torch"))
    mine, foreign = (
        verify_supervised(str(path), Options(limits=SETTLED, owner=owner)) for owner in (OTHER, 1)
    )
    assert (mine.state, foreign.state) == (State.VERIFIED, State.UNKNOWN), reasons(mine)
    assert "it belongs to another user" in reasons(foreign) and foreign.bytes_read == 0
    folder = verify(str(tmp_path), Options(limits=SETTLED, owner=OTHER))
    assert folder.state == State.UNKNOWN and folder.files == 0
