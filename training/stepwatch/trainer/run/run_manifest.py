"""The run manifest: a run's configuration, code version, environment, data and seed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from stepwatch.trainer.config.configure import as_table
from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.sizes import model_sizes

_RECORDED = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""The only variables that are recorded, so that no secret is."""


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def code_version() -> str | None:
    """Return the commit of the checkout that holds this code; None without a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip()


def run_manifest(
    options: Options, data_digest: str, environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """Return configuration, versions, environment, data digest and seed as plain JSON values."""
    return {
        "configuration": as_table(options),
        "code": {"stepwatch": _version("stepwatch"), "commit": code_version()},
        "environment": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "machine": platform.machine(),
            "kernel": platform.release(),
            **{name: environment[name] for name in _RECORDED if name in environment},
        },
        "data_sha256": data_digest,
        "seed": options.run.seed,
    }


def run_identity(options: Options, data_digest: str) -> dict[str, Any]:
    """Return the facts that a checkpoint must share with the run that resumes from it."""
    size = model_sizes()[options.model.model]
    shape = {
        f"model.{key}": getattr(size, key)
        for key in ("layers", "width", "heads", "kv_heads", "feed_forward", "rotary_base")
    }
    return {
        **shape,
        "model.length": options.model.length,
        "parallel.batch": options.parallel.batch,
        "run.seed": options.run.seed,
        "data.sha256": data_digest,
    }
