"""Ten steps of torchtitan's own debug model on one device, watched by its adapter."""

from __future__ import annotations

import sys
from typing import Any

from torchtitan.config import ConfigManager


def main(folder: str) -> None:
    """Build torchtitan's Trainer, adapt it, and train."""
    from stepwatch.hooks.adapters.torchtitan import watch_trainer

    words = ["--module", "llama3", "--config", "llama3_debugmodel"]
    words += ["--training.steps", "10", "--dump_folder", folder]
    trainer: Any = ConfigManager().parse_args(words).build()
    watch = watch_trainer(trainer, job="adapted")
    trainer.train()
    watch.finish()
    watch.close()


if __name__ == "__main__":
    main(sys.argv[1])
