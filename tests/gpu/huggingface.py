"""An unmodified Hugging Face Trainer script on a GPU, a tiny model in bf16.

python -m tests.gpu.huggingface KIND LOSSES
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import torch

from tests.adapters.scripts.hf import trainer


def main(kind: str, losses: Path) -> None:
    """Train, and write the logged losses."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    with tempfile.TemporaryDirectory() as folder:
        hf_trainer = trainer(Path(folder), use_cpu=kind == "cpu", bf16=kind == "cuda")
        hf_trainer.train()
    logged = [repr(entry["loss"]) for entry in hf_trainer.state.log_history if "loss" in entry]
    losses.write_text(json.dumps(logged))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
