"""`stepwatch checkpoint verify`: lines, JSON, exit codes, manifests, and Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from stepwatch.cli.main import main
from stepwatch.cli.verbs.checkpoint import bytes_per_second, size


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint that was written an hour ago."""
    path = tmp_path / "ckpt" / "model.pt"
    path.parent.mkdir()
    torch.save({"weight": torch.randn(100, 100), "step": 40}, path)
    return aged(path)


def aged(path: Path) -> Path:
    hour_ago = time.time() - 3600
    os.utime(path, (hour_ago, hour_ago))
    os.utime(path.parent, (hour_ago, hour_ago))
    return path


def test_a_good_checkpoint_is_one_line(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["checkpoint", "verify", str(checkpoint)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"verified: {checkpoint}: torch, step 40, 1 file, 41.")
    assert " kB read in " in line


def test_a_damaged_checkpoint_names_file_and_reason(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    aged(checkpoint)
    assert main(["checkpoint", "verify", str(checkpoint.parent)]) == 1
    head, line = capsys.readouterr().out.splitlines()
    assert head.startswith("damaged: ")
    assert line == "damage   model.pt: it is cut short: no central directory at its end"


def test_a_checkpoint_that_changes_is_unknown(
    checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    assert main(["checkpoint", "verify", str(checkpoint), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert report["state"] == "unknown" and len(report["problems"]) == 2
    assert report["problems"][0]["weight"] == "unknown"


def test_a_manifest_is_written_where_it_is_asked_and_finds_a_changed_bit(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(checkpoint.parent.iterdir())
    manifest = tmp_path / "manifest.json"
    folder = str(checkpoint.parent)
    assert main(["checkpoint", "verify", folder, "--manifest", str(manifest)]) == 0
    assert sorted(checkpoint.parent.iterdir()) == before
    (entry,) = json.loads(manifest.read_text())["files"].values()
    assert entry["size"] == checkpoint.stat().st_size and len(entry["sha256"]) == 64
    assert main(["checkpoint", "verify", folder, "--against", str(manifest)]) == 0
    torch.save({"weight": torch.randn(100, 100), "step": 40}, checkpoint)
    aged(checkpoint)
    assert main(["checkpoint", "verify", folder]) == 0
    assert main(["checkpoint", "verify", folder, "--against", str(manifest)]) == 1
    assert "does not match its digest in the earlier manifest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["verify", "/no/such/path"], "there is no /no/such/path"),
        (["verify", ".", "--limit-rate", "fast"], "no rate such as 200MB/s"),
        (["verify", ".", "--timeout", "-1"], "number of seconds above 0"),
        (["verify", ".", "--against", "/dev/null"], "is no manifest"),
        (["verify", ".", "--against", "/no/file"], "no such file"),
        (["verify"], "required: path"),
        (["very"], "invalid choice"),
        ([], "required: ACTION"),
    ],
)
def test_wrong_usage_is_one_line(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main(["checkpoint", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stepwatch: ") and hint in line


def test_names_control_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a\x1b[31m\nb.json"
    path.write_text("{")
    os.utime(path, (1.0, 1.0))
    os.utime(tmp_path, (1.0, 1.0))
    assert main(["checkpoint", "verify", str(tmp_path)]) == 1
    shown = capsys.readouterr().out
    assert "\x1b" not in shown and len(shown.splitlines()) == 2


@pytest.mark.parametrize(
    ("words", "rate"),
    [("200MB/s", 2e8), ("1.5G", 1.5e9), ("64KiB/s".replace("K", "k"), 65536.0), ("1000", 1e3)],
)
def test_rates(words: str, rate: float) -> None:
    assert bytes_per_second(words) == rate


def test_sizes() -> None:
    assert [size(n) for n in (0, 999, 1000, 41_293, 5e12)] == [
        "0 bytes", "999 bytes", "1 kB", "41.3 kB", "5 TB"
    ]  # fmt: skip


def heed_interrupts() -> None:
    """Undo an inherited `SIG_IGN`: a shell starts a background command with it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_ends_both_processes_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "big.safetensors"
    length = 2_000_000_000 - 4096
    entry = {"weight": {"dtype": "U8", "shape": [length], "data_offsets": [0, length]}}
    header = json.dumps(entry).encode().ljust(4088)
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(path, 2_000_000_000)
    manifest = tmp_path / "manifest.json"
    words = [sys.executable, "-m", "stepwatch.cli", "checkpoint", "verify", str(path)]
    words += ["--limit-rate", "1MB/s", "--manifest", str(manifest)]
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline_s = time.monotonic() + 60
        while not (words_of := children.read_text().split()) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        try:
            out, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130 and errors == "stepwatch: interrupted\n" and out == ""
    assert not manifest.exists()
    assert all(not Path(f"/proc/{child}").exists() for child in words_of)
