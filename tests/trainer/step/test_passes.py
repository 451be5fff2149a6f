"""Forward and backward passes without a pipeline."""

from __future__ import annotations

import pytest
import torch

from stepwatch.hooks import Watch
from stepwatch.trainer.model.decoder import next_byte_loss
from stepwatch.trainer.parallel.local_model import build_local_model
from stepwatch.trainer.parallel.runtime import Runtime
from stepwatch.trainer.step.passes import PlainPasses
from tests.trainer.builders import LENGTH, options_of, tokens


@pytest.mark.parametrize("microbatches", [1, 4])
def test_accumulated_gradients_are_those_of_the_whole_batch(
    runtime: Runtime, watch: Watch, microbatches: int
) -> None:
    options = options_of(f"--mesh pp=1 --model debug --length {LENGTH}")
    model, reference = build_local_model(options, runtime), build_local_model(options, runtime)
    batch = (tokens(8), tokens(8))
    with watch.step() as step:
        loss = PlainPasses(model, microbatches).run(batch, step)
    with torch.no_grad():
        assert PlainPasses(reference, microbatches).evaluate(batch).item() == pytest.approx(
            loss.item(), rel=1e-6
        )
    expected = next_byte_loss(reference.modules[0](batch[0]), batch[1])
    expected.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    pairs = zip(
        model.named_parameters().values(), reference.named_parameters().values(), strict=True
    )
    for parameter, wanted in pairs:
        assert parameter.grad is not None and wanted.grad is not None
        assert torch.allclose(parameter.grad, wanted.grad, atol=1e-6)
