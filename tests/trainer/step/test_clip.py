"""The gradient norm and clipping on one rank, compared with torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from stepwatch.trainer.step.clip import local_gradients, scale_gradients, squared_norm_share


def _parameters() -> list[nn.Parameter]:
    torch.manual_seed(1)
    parameters = [nn.Parameter(torch.randn(shape)) for shape in ((4, 3), (7,), (0, 3))]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter) * 5
    return [*parameters, nn.Parameter(torch.randn(2))]


@pytest.mark.parametrize("limit", [0.5, 1000.0])
def test_clipping_equals_torchs_own(limit: float) -> None:
    ours, reference = _parameters(), _parameters()
    gradients = local_gradients(ours)
    norm = squared_norm_share(gradients, 1, torch.device("cpu")).sqrt()
    scale_gradients(gradients, norm, limit)
    expected = nn.utils.clip_grad_norm_(reference, limit)
    assert float(norm) == pytest.approx(float(expected), rel=1e-6)
    for a, b in zip(ours, reference, strict=True):
        if a.grad is not None and b.grad is not None:
            assert torch.allclose(a.grad, b.grad, rtol=1e-5)


def test_copies_on_other_ranks_count_once() -> None:
    gradients = local_gradients(_parameters())
    once = squared_norm_share(gradients, 1, torch.device("cpu"))
    shared = squared_norm_share(gradients, 4, torch.device("cpu"))
    assert float(shared) * 4 == pytest.approx(float(once))


def test_a_gradient_that_is_not_finite_makes_the_norm_not_finite() -> None:
    parameters = _parameters()
    assert parameters[0].grad is not None
    parameters[0].grad[0, 0] = float("nan")
    share = squared_norm_share(local_gradients(parameters), 1, torch.device("cpu"))
    assert not torch.isfinite(share)
