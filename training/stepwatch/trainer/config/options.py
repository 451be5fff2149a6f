"""Every option of the trainer: one place, one type, one default, one line of help.

An option is a flag (`--checkpoint-every 50`) and a TOML key under its section
(`[checkpoint]` / `checkpoint_every = 50`). Section names are the fields of `Options`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .mesh import MeshShape

SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "zbv")
PRECISIONS = ("fp32", "bf16")
ACTIVATIONS = ("keep", "selective", "full")
COMPRESSIONS = ("none", "bf16", "powersgd")
SCALINGS = ("none", "linear", "sqrt")


def option(default: Any, help_text: str, choices: tuple[str, ...] = ()) -> Any:
    """Declare one option with its default, help line and, where closed, its values."""
    return field(default=default, metadata={"help": help_text, "choices": choices})


@dataclass(frozen=True)
class RunOptions:
    """What is run, where its files go and how it is restarted."""

    job: str = option("train", "name of the job")
    steps: int = option(60, "steps to train, counted from the start of the job")
    seed: int = option(1, "seed of weights and data order")
    run_dir: str = option("", "directory for shards, checkpoints and history (default: temporary)")
    json: str = option("", "write the result to this file")
    resume: str = option(
        "auto", "auto: newest verified checkpoint; never: start anew", ("auto", "never")
    )
    nodes: str = option("1", "nodes of the job, or min:max for an elastic one (torchrun)")
    rendezvous: str = option("", "host:port of the rendezvous; needed where nodes is not 1")
    restarts: int = option(0, "restarts of all ranks after a failure (torchrun)")
    grace_seconds: float = option(25.0, "seconds a rank may use for a checkpoint after SIGTERM")
    timeout_seconds: float = option(300.0, "seconds after which a stuck collective is an error")


@dataclass(frozen=True)
class ModelOptions:
    """The model and how it is computed."""

    model: str = option("tiny", "size: a table of sizes.toml")
    length: int = option(128, "tokens (bytes) per sequence")
    precision: str = option("fp32", "dtype of matrix products", PRECISIONS)
    activations: str = option("keep", "keep, or recompute all (full) or some", ACTIVATIONS)
    compile: bool = option(False, "compile every layer with torch.compile")


@dataclass(frozen=True)
class ParallelOptions:
    """How the work is divided."""

    mesh: MeshShape = field(
        default=MeshShape(pp=2, dp_shard=2),
        metadata={"help": "axes pp, dp_replicate, dp_shard, tp", "choices": ()},
    )
    schedule: str = option("1f1b", "order of the pipeline", SCHEDULES)
    batch: int = option(32, "sequences per step over all ranks")
    microbatches: int = option(
        4, "parts of a rank's batch: pipeline micro-batches, or gradient accumulation without one"
    )
    compression: str = option("none", "of gradients under pure data parallelism", COMPRESSIONS)


@dataclass(frozen=True)
class DataOptions:
    """What is trained on."""

    data: str = option("", "text file or directory (default: Python's own standard library)")
    data_bytes: int = option(8 << 20, "bytes of text used at most")
    bad_shard: str = option("fail", "what a bad shard does", ("fail", "quarantine"))
    ahead: int = option(2, "batches read ahead")


@dataclass(frozen=True)
class OptimizerOptions:
    """AdamW and its learning rate."""

    lr: float = option(3e-3, "peak learning rate at the reference batch")
    warmup: int = option(10, "steps of linear warm-up")
    final_lr: float = option(0.1, "learning rate at the last step, as a share of the peak")
    lr_scaling: str = option("none", "rule for batches other than the reference", SCALINGS)
    reference_batch: int = option(32, "sequences per step that lr was chosen for")
    weight_decay: float = option(0.1, "decoupled weight decay of matrices")
    clip: float = option(1.0, "global gradient norm is clipped to this; 0 turns clipping off")
    nonfinite: str = option(
        "skip", "what a step does when its gradient is not finite", ("skip", "stop", "apply")
    )


@dataclass(frozen=True)
class CheckpointOptions:
    """When checkpoints are taken and how many are kept."""

    checkpoint_every: int = option(20, "steps between checkpoints; 0 takes only the last")
    checkpoint_keep: int = option(2, "newest checkpoints kept, beside the newest verified one")
    checkpoint_mode: str = option("async", "write beside training or within", ("async", "sync"))


@dataclass(frozen=True)
class Options:
    """The resolved configuration of one run."""

    run: RunOptions = RunOptions()
    model: ModelOptions = ModelOptions()
    parallel: ParallelOptions = ParallelOptions()
    data: DataOptions = DataOptions()
    optimizer: OptimizerOptions = OptimizerOptions()
    checkpoint: CheckpointOptions = CheckpointOptions()
