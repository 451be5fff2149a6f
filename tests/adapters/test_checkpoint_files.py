"""Checkpoints that the real frameworks write are verified, and damage in them is found."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from stepwatch.agent.checkpoints import Report, State, Weight
from tests.agent.checkpoints.damages import cut
from tests.agent.checkpoints.written import tensors, verified

pytestmark = [
    pytest.mark.long(
        "tests/agent/checkpoints/test_good.py::test_a_good_checkpoint_is_verified",
        "tests/agent/checkpoints/test_damaged.py::test_damage_is_found",
    ),
    pytest.mark.filterwarnings("ignore"),
]


class Line(torch.utils.data.Dataset[Any]):
    """Sixty-four samples of a line."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        value = torch.full((8,), index / 64.0)
        return {"x": value, "labels": 2 * value}


def assert_good(report: Report, layout: str, step: int | None = None) -> None:
    assert report.state == State.VERIFIED, report.problems
    assert [p for p in report.problems if p.weight != Weight.NOTICE] == []
    assert report.layout == layout and (step is None or report.step == step)


def assert_damage_is_found(path: Path) -> None:
    """Cut a file, and flip a bit in its first tensor; both are found."""
    data = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        member = next(info for info in archive.infolist() if info.filename.endswith("data/0"))
    name_size, extra_size = struct.unpack_from("<2H", data, member.header_offset + 26)
    flipped = bytearray(data)
    flipped[member.header_offset + 30 + name_size + extra_size] ^= 4
    for damaged in (data[: len(data) * 9 // 10], flipped):
        path.write_bytes(damaged)
        assert verified(path).state == State.DAMAGED
    path.write_bytes(data)


def test_safetensors(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.torch")
    for kind in ("weights", "half", "zeros"):
        path = tmp_path / f"{kind}.safetensors"
        library.save_file(tensors(kind), path, metadata={"step": "40"})
        assert_good(verified(path), "safetensors")
    cut(1, -1)(path)
    assert verified(path).state == State.DAMAGED


def test_transformers_trainer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")

    class Model(transformers.PreTrainedModel):  # type: ignore[misc, name-defined]
        config_class = transformers.PretrainedConfig

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.layer = torch.nn.Linear(8, 8)
            self.post_init()

        def forward(self, x: Any, labels: Any) -> Any:
            out = self.layer(x)
            return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}

    for only_model in (False, True):
        folder = tmp_path / str(only_model)
        arguments = transformers.TrainingArguments(
            str(folder), max_steps=8, save_steps=4, save_only_model=only_model, report_to=[],
            use_cpu=True, disable_tqdm=True, logging_steps=2,
        )  # fmt: skip
        model = Model(transformers.PretrainedConfig())
        transformers.Trainer(model, arguments, train_dataset=Line()).train()
        assert_good(verified(folder / "checkpoint-4"), "huggingface", 4)
        assert_good(verified(folder), "huggingface", 8)
    whole = tmp_path / "False/checkpoint-8"
    assert_damage_is_found(whole / "optimizer.pt")
    (whole / "scheduler.pt").unlink()
    assert verified(whole).state == State.DAMAGED


def test_accelerate_state(tmp_path: Path) -> None:
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    accelerator.prepare(model, optimizer, scheduler)
    accelerator.save_state(str(tmp_path / "state"))
    assert_good(verified(tmp_path / "state"), "huggingface")


def test_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self, width: int = 8, folder: Path = tmp_path) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.layer = torch.nn.Linear(width, width)

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.mse_loss(self.layer(batch["x"]), batch["labels"])

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", default_root_dir=tmp_path, logger=False,
        enable_progress_bar=False,
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(Line(), batch_size=8))
    (path,) = tmp_path.rglob("*.ckpt")
    assert_good(verified(path), "lightning", 16)
    assert_damage_is_found(path)
    renamed = path.with_name("epoch=1-step=99.ckpt")
    path.rename(renamed)
    assert verified(renamed).state == State.UNKNOWN
