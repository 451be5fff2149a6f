"""The run manifest and the identity of a run."""

from __future__ import annotations

from stepwatch.trainer.config.options import Options
from stepwatch.trainer.run.run_manifest import run_identity, run_manifest


def test_the_run_manifest_holds_no_secret() -> None:
    environment = {"WORLD_SIZE": "4", "AWS_SECRET_ACCESS_KEY": "hush", "TOKEN": "hush"}
    manifest = run_manifest(Options(), "d" * 64, environment)
    assert "hush" not in str(manifest)
    assert manifest["environment"]["WORLD_SIZE"] == "4"
    assert manifest["data_sha256"] == "d" * 64
    assert manifest["configuration"]["run"]["seed"] == manifest["seed"]


def test_the_identity_holds_model_batch_seed_and_data_only() -> None:
    identity = run_identity(Options(), "d")
    assert {"model.layers", "parallel.batch", "run.seed", "data.sha256"} <= set(identity)
    assert not any("mesh" in key or "steps" in key for key in identity)
