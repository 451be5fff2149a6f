"""Each damage, in each layout, is found, with the file and the reason."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from stepwatch.agent.checkpoints import State, Weight

from . import damages as d
from .conftest import Copy
from .written import STEP, verified

HF = "model-0000{}-of-00004.safetensors"
DS = f"global_step{STEP}"
ITERATION = f"iter_{STEP:07d}"
CASES: list[tuple[str, str, d.Damage, str]] = [
    # torch.save
    ("torch", "", d.cut(0), "it is empty"),
    ("torch", "", d.cut(0, 3), "neither a whole archive"),
    ("torch", "", d.cut(0.5), "it is cut short: no central directory"),
    ("torch", "", d.cut(1, -1), "cut short"),
    ("torch", "", d.cut(1, -22), "it is cut short"),
    ("torch", "", d.cut(1, -200), "it is cut short"),
    ("torch", "", d.append(b"more"), "more bytes than its central directory says"),
    ("torch", "", d.flip(0.3), "does not match its CRC"),
    ("torch", "", d.flip(0.9, 7), "does not match its CRC"),
    ("torch", "", d.flip(0.00002), "CRC|cannot be parsed|beside its bytes|not where"),
    ("torch", "", d.zero_pages(40, 1), "bytes 163840 to 167936 are zeros"),
    ("torch", "", d.zero_pages(50, None), "cut short"),
    ("torch", "", d.zero_pages(0, None), "it begins with zeros"),
    ("torch", "", d.without_member("data/1"), "the storage 1 of its tensors is missing"),
    ("torch", "", d.short_member("data/0"), "its storage 0 has 127996 bytes instead of 128000"),
    ("torch-module", "", d.flip(0.6), "does not match its CRC"),
    ("torch-legacy", "", d.cut(0.7), "it is cut short"),
    ("torch-legacy", "", d.cut(1, -1), "it is cut short"),
    ("torch-legacy", "", d.cut(0, 60), "cannot be parsed"),
    ("torch-legacy", "", d.append(bytes(4096)), "4096 bytes follow its end"),
    ("torch-without-crcs", "", d.cut(0.4), "it is cut short"),
    ("rank-files", "rank_1.pt", d.torch_state(step=STEP - 20, rank=1), "mixed steps"),
    ("rank-files", "rank_2.pt", d.flip(0.5), "does not match its CRC"),
    # safetensors
    ("safetensors", "", d.cut(0), "it is empty"),
    ("safetensors", "", d.cut(0, 5), "does not fit"),
    ("safetensors", "", d.cut(0, 100), "does not fit"),
    ("safetensors", "", d.cut(0.5), "it is cut short"),
    ("safetensors", "", d.cut(1, -4), "it is cut short"),
    ("safetensors", "", d.append(b"1234"), "4 bytes follow its last tensor"),
    ("safetensors", "", d.flip(0, 5), "no JSON|does not fit|does not start|starts at|cut short"),
    ("safetensors", "", d.zero_pages(0, 1), "its header is no JSON"),
    ("safetensors", "", d.zero_pages(20, 2), "bytes 81920 to 90112 are zeros"),
    ("safetensors", "", d.zero_pages(60, None), "are zeros inside the tensor"),
    ("safetensors", "", d.all_zero, "all its 10 tensors are zeros"),
    ("safetensors", "", d.replace(b"\xff" * 4096), "does not fit"),
    ("safetensors", "", d.edit_header(lambda h: h["embed.weight"].update(shape=[9, 9])), "instead"),
    ("safetensors", "", d.edit_header(lambda h: h.pop("layer.weight")), "starts at"),
    # torch.distributed.checkpoint
    ("dcp", ".metadata", d.lose, "it is missing: the save did not end"),
    ("dcp", ".metadata", d.cut(0.6), "cannot be parsed"),
    ("dcp", ".metadata", d.cut(0), "it is empty"),
    ("dcp", "__0_1.distcp", d.lose, "it is missing"),
    ("dcp", "__0_0.distcp", d.cut(0.8), "it is cut short"),
    ("dcp", "__0_0.distcp", d.cut(0), "it is cut short"),
    ("dcp", "__0_0.distcp", d.flip(0.5), "does not match its CRC"),
    ("dcp", "__0_0.distcp", d.zero_pages(5, 3), "are zeros"),
    ("trainer", f"step-{STEP:08d}/manifest.json", d.edit_json(step=60), "its own digest"),
    ("trainer", f"step-{STEP:08d}/__0_0.distcp", d.flip(0.999), "digest|CRC|central"),
    ("trainer", f"step-{STEP:08d}/__0_0.distcp", d.lose, "it is missing"),
    # Hugging Face
    ("huggingface", HF.format(2), d.lose, "it is missing"),
    ("huggingface", HF.format(3), d.cut(0.9), "it is cut short"),
    ("huggingface", HF.format(1), d.shard_without_tensor, "1 of its 1 tensors are missing"),
    ("huggingface", "model.safetensors.index.json", d.cut(0.5), "it is no JSON"),
    ("huggingface", "trainer_state.json", d.cut(0.5), "it is no JSON"),
    ("huggingface", "trainer_state.json", d.lose, "it is missing: the save did not end"),
    ("huggingface", "trainer_state.json", d.edit_json(global_step=60), "mixed steps"),
    ("huggingface", "optimizer.pt", d.lose, "it is missing"),
    ("huggingface", "optimizer.pt", d.cut(0.5), "it is cut short"),
    ("huggingface", "scheduler.pt", d.lose, "it is missing"),
    ("huggingface", "config.json", d.zero_pages(0, None), "it holds only zeros"),
    ("huggingface-bin", "pytorch_model-00002-of-00004.bin", d.cut(0.5), "it is cut short"),
    ("huggingface-bin", "pytorch_model-00004-of-00004.bin", d.lose, "it is missing"),
    ("huggingface-fsdp", "optimizer_0/__0_0.distcp", d.lose, "it is missing"),
    ("adapter", "adapter_model.safetensors", d.lose, "it is missing"),
    ("output-folder", f"checkpoint-{STEP}/rng_state.pth", d.lose, "it is missing"),
    ("accelerate", "random_states_0.pkl", d.cut(0.5), "it is cut short"),
    # Lightning
    ("lightning", "", d.cut(0.99), "it is cut short"),
    ("lightning", "", d.flip(0.4), "does not match its CRC"),
    ("lightning-sharded", "meta.pt", d.lose, "it is missing"),
    # DeepSpeed
    ("deepspeed", "latest", d.replace(b"global_step60"), "which is missing"),
    ("deepspeed", f"{DS}/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", d.lose, "it is missing"),
    ("deepspeed", f"{DS}/mp_rank_00_model_states.pt", d.lose, "it is missing"),
    ("deepspeed", f"{DS}/mp_rank_00_model_states.pt", d.zero_pages(9, 1), "are zeros"),
    ("deepspeed-3", f"{DS}/zero_pp_rank_1_mp_rank_00_model_states.pt", d.lose, "it is missing"),
    (
        "deepspeed-3",
        f"{DS}/zero_pp_rank_1_mp_rank_00_model_states.pt",
        d.deepspeed_of_step(20),
        "mixed steps",
    ),
    # Megatron
    ("megatron", "latest_checkpointed_iteration.txt", d.replace(b"60"), "which is missing"),
    ("megatron", "latest_checkpointed_iteration.txt", d.replace(b"\0\0"), "zeros"),
    ("megatron", f"{ITERATION}/mp_rank_01_000/model_optim_rng.pt", d.lose, "it is missing"),
    ("megatron", f"{ITERATION}/mp_rank_01_001", d.lose, "it is missing"),
    (
        "megatron",
        f"{ITERATION}/mp_rank_00_001/model_optim_rng.pt",
        d.torch_state(iteration=20),
        "mixed steps",
    ),
    ("megatron-dist", f"{ITERATION}/.metadata", d.lose, "it is missing"),
]
POISONED: list[tuple[str, str, d.Damage]] = [
    *(("torch", "", d.poison_zip(payload)) for payload in d.PAYLOADS),
    *(("accelerate", "random_states_0.pkl", d.poison(payload)) for payload in d.PAYLOADS),
    ("torch", "", d.poisoned_state),
    ("torch-legacy", "", d.poisoned_legacy),
    ("dcp", ".metadata", d.poison("builtins.exec")),
    ("huggingface", "training_args.bin", d.poisoned_state),
    ("huggingface", "optimizer.pt", d.poison("os.system")),
    ("huggingface-bin", "pytorch_model-00001-of-00004.bin", d.poisoned_state),
    ("lightning", "", d.poison_zip("getattr")),
    ("deepspeed", f"{DS}/mp_rank_00_model_states.pt", d.poison_zip("stack global")),
    ("megatron", f"{ITERATION}/mp_rank_00_000/model_optim_rng.pt", d.poisoned_state),
]


@pytest.mark.parametrize(("layout", "file", "damage", "reason"), CASES)
def test_damage_is_found(
    layout: str, file: str, damage: d.Damage, reason: str, copy_of: Copy
) -> None:
    path = copy_of(layout)
    damage(path / file if file else path)
    report = verified(path)
    assert report.state == State.DAMAGED, report
    wrong = [p for p in report.problems if p.weight == Weight.DAMAGE]
    text = "\n".join(f"{problem.file}: {problem.reason}" for problem in wrong)
    assert any(part in text for part in reason.split("|")), text
    assert all("\n" not in problem.reason for problem in wrong)


@pytest.mark.parametrize(("layout", "file", "damage"), POISONED)
def test_a_payload_is_found_and_never_executed(
    layout: str,
    file: str,
    damage: d.Damage,
    copy_of: Copy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = copy_of(layout)
    monkeypatch.chdir(tmp_path)
    damage(path / file if file else path)
    report = verified(path)
    dangers = [p.reason for p in report.problems if p.weight == Weight.DANGER]
    assert report.state == State.DAMAGED and dangers, report.problems
    assert dangers[0].startswith("dangerous pickle")
    assert not (tmp_path / d.MARKER).exists()


@pytest.mark.parametrize(
    "payload", ["os.system", "builtins.exec", "stack global", "getattr", "memo"]
)
def test_the_payloads_are_real(
    payload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pickle.loads(d.PAYLOADS[payload])  # noqa: S301 - the control: it only creates a file
    assert (tmp_path / d.MARKER).exists()


def test_there_are_sixty_damaged_ones() -> None:
    assert len(CASES) >= 60
