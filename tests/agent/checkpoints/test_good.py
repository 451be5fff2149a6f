"""Good checkpoints in each layout are verified: none is accused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stepwatch.agent.checkpoints import State, Weight

from .written import LAYOUTS, STEP, verified

WITHOUT_STEP = {"torch-legacy", "torch-module", "safetensors", "dcp", "huggingface-bin", "adapter"}
WITHOUT_STEP |= {"accelerate"}
NAMES = {"rank-files": "torch", "adapter": "huggingface", "trainer": "stepwatch, dcp"}
NAMES |= {"output-folder": "huggingface", "accelerate": "huggingface"}
NAMES |= {"huggingface-fsdp": "huggingface, dcp", "lightning-sharded": "lightning, dcp"}
NAMES |= {"megatron-dist": "megatron, dcp", "torch-module": "torch", "torch-without-crcs": "torch"}
NAMES |= {"huggingface-model": "huggingface", "huggingface-bin": "huggingface"}
NAMES |= {"deepspeed-3": "deepspeed"}


@pytest.mark.parametrize("kind", ["weights", "half", "zeros"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_good_checkpoint_is_verified(
    layout: str, kind: str, originals: Callable[[str, str], Path]
) -> None:
    report = verified(originals(layout, kind))
    assert report.state == State.VERIFIED, report.problems
    assert [p for p in report.problems if p.weight != Weight.NOTICE] == []
    assert report.bytes_read == report.size > 0
    assert report.layout == NAMES.get(layout, layout)
    step = 2 * STEP if layout == "output-folder" else STEP
    assert layout in WITHOUT_STEP or report.step == step


def test_there_are_sixty_good_ones() -> None:
    assert 3 * len(LAYOUTS) >= 60
