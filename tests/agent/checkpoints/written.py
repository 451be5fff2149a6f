"""Checkpoints in each layout: by torch itself, and by hand as the other libraries write them."""

from __future__ import annotations

import argparse
import json
import struct
import warnings
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_saver import save

from stepwatch.agent.checkpoints import Limits, Options, Report
from stepwatch.agent.checkpoints.verification import verify
from stepwatch.trainer.checkpoint.manifest import CheckpointManifest, entry_of, write_manifest

SETTLED = Limits(settle_seconds=0.0)
STEP = 40
DTYPES = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int8: "I8",
    torch.bool: "BOOL",
}
Tensors = dict[str, torch.Tensor]


def verified(path: Path, **options: Any) -> Report:
    """Verify a path whose files may have been written just now."""
    return verify(str(path), Options(limits=SETTLED, **options))


def tensors(kind: str) -> Tensors:
    """Tensors of a small model; `zeros` has zeros where healthy models have them."""
    noise = torch.Generator().manual_seed(1)
    weight = torch.randn(300, 211, generator=noise)
    if kind == "half":
        return {
            "embed.weight": torch.randn(500, 64, generator=noise).bfloat16(),
            "layer.weight": weight.bfloat16(),
            "layer.codes": torch.randint(-9, 9, (77, 33), generator=noise).to(torch.int8),
            "layer.bias": torch.zeros(300).bfloat16(),
        }
    if kind == "zeros":
        padded = torch.randn(512, 1024, generator=noise)
        padded[400:] = 0  # rows of a padded vocabulary
        moments = torch.zeros(256, 2048)
        moments[::7] = 1e-8
        return {
            "embed.weight": padded,
            "lora_B.weight": torch.zeros(128, 1024),
            "exp_avg": moments,
            "mask": torch.tril(torch.ones(512, 512)).bool(),
            "bias": torch.zeros(8192),
        }
    return {
        "embed.weight": torch.randn(500, 64, generator=noise),
        "layer.weight": weight,
        "layer.bias": torch.randn(300, generator=noise),
        "positions": torch.arange(1024),
    }


def optimizer_state(model: Tensors) -> dict[str, Any]:
    """State of an AdamW after some steps."""
    floats = [tensor.float() for tensor in model.values() if tensor.is_floating_point()]
    state = {
        index: {"step": torch.tensor(float(STEP)), "exp_avg": x * 0.1, "exp_avg_sq": x * x}
        for index, x in enumerate(floats)
    }
    group = {"lr": 1e-4, "betas": (0.9, 0.95), "params": [*range(len(floats))]}
    return {"state": state, "param_groups": [group]}


def write_safetensors(path: Path, model: Tensors) -> None:
    """Write a file as the safetensors library does: the header padded to 8 bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, tensor in model.items():
        content = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": [*tensor.shape],
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def torch_file(folder: Path, model: Tensors) -> Path:
    path = folder / "checkpoint.pt"
    torch.save({"model": model, "optimizer": optimizer_state(model), "step": STEP}, path)
    return path


def torch_legacy(folder: Path, model: Tensors) -> Path:
    path = folder / "checkpoint.pth"
    state = {"model": OrderedDict(model), "epoch": 3}
    torch.save(state, path, _use_new_zipfile_serialization=False)
    return path


def torch_module(folder: Path, model: Tensors) -> Path:
    path = folder / "module.pt"
    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32))
    torch.save({"module": module, "extra": model, "args": argparse.Namespace(lr=0.1)}, path)
    return path


def torch_without_crcs(folder: Path, model: Tensors) -> Path:
    torch.serialization.set_crc32_options(False)
    try:
        return torch_file(folder, model)
    finally:
        torch.serialization.set_crc32_options(True)


def rank_files(folder: Path, model: Tensors) -> Path:
    for rank in range(3):
        torch.save({"model": model, "rank": rank, "step": STEP}, folder / f"rank_{rank}.pt")
    return folder


def safetensors_file(folder: Path, model: Tensors) -> Path:
    path = folder / "weights.safetensors"
    write_safetensors(path, model)
    return path


def _save_sharded(state: dict[str, Any], folder: Path, *, single_file: bool = True) -> None:
    """Save with torch.distributed.checkpoint in one process."""
    writer = FileSystemWriter(folder, single_file_per_rank=single_file)
    with warnings.catch_warnings(action="ignore"):
        save(state, storage_writer=writer, no_dist=True)


def dcp_folder(folder: Path, model: Tensors, *, single_file: bool = False) -> Path:
    state = {"model": model, "optimizer": {"step": STEP, "lr": 1e-4}, "epoch": [1, 2]}
    _save_sharded(state, folder, single_file=single_file)
    return folder


def trainer_folder(folder: Path, model: Tensors) -> Path:
    """The reference trainer's folder: DCP, and a manifest with digests."""
    path = folder / f"step-{STEP:08d}"
    path.mkdir()
    _save_sharded({"model": model}, path)
    files = {file.name: entry_of(file) for file in path.iterdir()}
    write_manifest(path, CheckpointManifest(STEP, {"seed": 1}, {"world": 1}, {}, files))
    return folder


def _index(folder: Path, shards: dict[str, Tensors], name: str) -> None:
    weight_map = {tensor: shard for shard, part in shards.items() for tensor in part}
    document = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / name).write_text(json.dumps(document))


def _shards(model: Tensors, pattern: str) -> dict[str, Tensors]:
    return {
        pattern.format(number, len(model)): {name: tensor}
        for number, (name, tensor) in enumerate(model.items(), 1)
    }


def _trainer_state(folder: Path, step: int = STEP) -> None:
    document = {"global_step": step, "epoch": 1.5, "log_history": [{"loss": 2.5, "step": step}]}
    (folder / "trainer_state.json").write_text(json.dumps(document))


def huggingface(folder: Path, model: Tensors) -> Path:
    """A folder by transformers' `Trainer` on two ranks, with sharded safetensors."""
    path = folder / f"checkpoint-{STEP}"
    path.mkdir()
    shards = _shards(model, "model-{:05d}-of-{:05d}.safetensors")
    for name, part in shards.items():
        write_safetensors(path / name, part)
    _index(path, shards, "model.safetensors.index.json")
    (path / "config.json").write_text(json.dumps({"model_type": "llama", "bos_token_id": 1}))
    special = {"bos_token": "<s>", "pad_token": "<|endoftext|>", "model_max_length": 10**30}
    (path / "tokenizer_config.json").write_text(json.dumps(special))
    (path / "README.md").write_text("Trained with a basic understanding of tokens: 3 = three.\n")
    torch.save(optimizer_state(model), path / "optimizer.pt")
    torch.save({"last_epoch": STEP, "_step_count": STEP + 1}, path / "scheduler.pt")
    for rank in range(2):
        torch.save({"cpu": torch.get_rng_state()}, path / f"rng_state_{rank}.pth")
    torch.save(argparse.Namespace(save_only_model=False), path / "training_args.bin")
    _trainer_state(path)
    return path


def huggingface_model(folder: Path, model: Tensors) -> Path:
    """A folder by `Trainer` with `save_only_model`."""
    write_safetensors(folder / "model.safetensors", model)
    (folder / "config.json").write_text("{}")
    torch.save(argparse.Namespace(save_only_model=True), folder / "training_args.bin")
    _trainer_state(folder)
    return folder


def huggingface_bin(folder: Path, model: Tensors) -> Path:
    """Sharded `pytorch_model-*.bin` by `save_pretrained` with `safe_serialization=False`."""
    shards = _shards(model, "pytorch_model-{:05d}-of-{:05d}.bin")
    for name, part in shards.items():
        torch.save(part, folder / name)
    _index(folder, shards, "pytorch_model.bin.index.json")
    (folder / "config.json").write_text("{}")
    return folder


def huggingface_fsdp(folder: Path, model: Tensors) -> Path:
    """A folder by `Trainer` with FSDP and sharded state: two DCP folders inside."""
    path = folder / f"checkpoint-{STEP}"
    path.mkdir()
    _save_sharded({"model": model}, path / "pytorch_model_fsdp_0")
    floats = {name: x.float() for name, x in model.items()}
    _save_sharded({"optimizer": floats}, path / "optimizer_0")
    torch.save({"last_epoch": STEP}, path / "scheduler.pt")
    torch.save({"cpu": torch.get_rng_state()}, path / "rng_state.pth")
    _trainer_state(path)
    return path


def adapter(folder: Path, model: Tensors) -> Path:
    """A folder by PEFT."""
    write_safetensors(folder / "adapter_model.safetensors", model)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 8}))
    return folder


def output_folder(folder: Path, model: Tensors) -> Path:
    """An output folder with two checkpoints of different steps."""
    for step in (STEP, 2 * STEP):
        path = folder / f"checkpoint-{step}"
        path.mkdir()
        write_safetensors(path / "model.safetensors", model)
        torch.save(optimizer_state(model), path / "optimizer.pt")
        torch.save({"last_epoch": step}, path / "scheduler.pt")
        torch.save({"cpu": torch.get_rng_state()}, path / "rng_state.pth")
        _trainer_state(path, step)
    return folder


def accelerate(folder: Path, model: Tensors) -> Path:
    """A folder by Accelerate's `save_state`."""
    write_safetensors(folder / "model.safetensors", model)
    torch.save(optimizer_state(model), folder / "optimizer.bin")
    torch.save({"last_epoch": STEP}, folder / "scheduler.bin")
    torch.save(
        {"step": 0, "torch_manual_seed": torch.get_rng_state()}, folder / "random_states_0.pkl"
    )
    return folder


def _lightning(model: Tensors) -> dict[str, Any]:
    return {
        "epoch": 1,
        "global_step": STEP,
        "pytorch-lightning_version": "2.6.6",
        "state_dict": OrderedDict(model),
        "loops": {"fit_loop": {"state_dict": {}}},
        "callbacks": {"ModelCheckpoint": {"best_model_score": torch.tensor(0.5)}},
        "optimizer_states": [optimizer_state(model)],
        "lr_schedulers": [],
        "hyper_parameters": {"lr": 1e-4},
    }


def lightning(folder: Path, model: Tensors) -> Path:
    path = folder / f"epoch=1-step={STEP}.ckpt"
    torch.save(_lightning(model), path)
    return path


def lightning_sharded(folder: Path, model: Tensors) -> Path:
    """A folder by Lightning's FSDP strategy with `state_dict_type="sharded"`."""
    path = folder / f"epoch=1-step={STEP}.ckpt"
    _save_sharded({"model": model}, path)
    meta = {key: value for key, value in _lightning(model).items() if key != "state_dict"}
    torch.save(meta, path / "meta.pt")
    return path


def _deepspeed_model(model: Tensors, stage: int) -> dict[str, Any]:
    return {
        "module": OrderedDict(model),
        "optimizer": None,
        "global_steps": STEP,
        "global_samples": 8 * STEP,
        "dp_world_size": 2,
        "mp_world_size": 1,
        "ds_config": {"zero_optimization": {"stage": stage}},
        "ds_version": "0.19.8",
    }


def _deepspeed(folder: Path, model: Tensors, stage: int) -> Path:
    path = folder / f"global_step{STEP}"
    path.mkdir()
    for rank in range(2):
        shard = {"optimizer_state_dict": optimizer_state(model), "ds_version": "0.19.8"}
        torch.save(shard, path / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
        if stage == 3:
            name = f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"
            torch.save(_deepspeed_model(model, stage), path / name)
    if stage < 3:
        torch.save(_deepspeed_model(model, stage), path / "mp_rank_00_model_states.pt")
    (folder / "latest").write_text(path.name)
    (folder / "zero_to_fp32.py").write_text("import torch\n")
    return folder


def deepspeed(folder: Path, model: Tensors) -> Path:
    return _deepspeed(folder, model, 1)


def deepspeed_3(folder: Path, model: Tensors) -> Path:
    return _deepspeed(folder, model, 3)


def megatron(folder: Path, model: Tensors) -> Path:
    """Two tensor-parallel and two pipeline-parallel ranks."""
    path = folder / f"iter_{STEP:07d}"
    for tensor in range(2):
        for stage in range(2):
            rank = path / f"mp_rank_{tensor:02d}_{stage:03d}"
            rank.mkdir(parents=True)
            state = {"args": argparse.Namespace(lr=1e-4), "iteration": STEP, "model": model}
            torch.save({**state, "checkpoint_version": 3.0}, rank / "model_optim_rng.pt")
    (folder / "latest_checkpointed_iteration.txt").write_text(f"{STEP}")
    return folder


def megatron_dist(folder: Path, model: Tensors) -> Path:
    """The `torch_dist` format: DCP beside `common.pt`."""
    path = folder / f"iter_{STEP:07d}"
    _save_sharded({"model": model}, path)
    torch.save({"iteration": STEP, "args": argparse.Namespace(lr=1e-4)}, path / "common.pt")
    document = {"sharded_backend": "torch_dist", "sharded_backend_version": 1}
    (path / "metadata.json").write_text(json.dumps(document))
    (folder / "latest_checkpointed_iteration.txt").write_text(f"{STEP}")
    return folder


LAYOUTS: dict[str, Callable[[Path, Tensors], Path]] = {
    "torch": torch_file,
    "torch-legacy": torch_legacy,
    "torch-module": torch_module,
    "torch-without-crcs": torch_without_crcs,
    "rank-files": rank_files,
    "safetensors": safetensors_file,
    "dcp": dcp_folder,
    "trainer": trainer_folder,
    "huggingface": huggingface,
    "huggingface-model": huggingface_model,
    "huggingface-bin": huggingface_bin,
    "huggingface-fsdp": huggingface_fsdp,
    "adapter": adapter,
    "output-folder": output_folder,
    "accelerate": accelerate,
    "lightning": lightning,
    "lightning-sharded": lightning_sharded,
    "deepspeed": deepspeed,
    "deepspeed-3": deepspeed_3,
    "megatron": megatron,
    "megatron-dist": megatron_dist,
}
"""Each writes a checkpoint into an empty folder and returns the path to verify."""
