"""Every step's one small all-reduce: loss, gradient norm and flags over all ranks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from stepwatch.faults import Injector
from stepwatch.faults.specs import WrongShape
from stepwatch.hooks import Watch
from stepwatch.trainer.parallel.runtime import Runtime


@dataclass(frozen=True)
class ReducedStats:
    """Sums over all ranks; float64 scalars on the device. `stop` and `saving` count ranks."""

    loss: Tensor
    norm: Tensor
    stop: Tensor
    saving: Tensor


class StatsReducer:
    """Sums loss shares, squared norms and flags over all ranks in one collective."""

    def __init__(
        self, runtime: Runtime, watch: Watch, injector: Injector, loss_copies: int
    ) -> None:
        self._runtime = runtime
        self._watch = watch
        self._injector = injector
        self._loss_copies = loss_copies

    def run(
        self, number: int, loss: Tensor, squares: Tensor, *, stop: bool, saving: bool
    ) -> ReducedStats:
        """Reduce one step's statistics.

        Args:
            number: the step's number.
            loss: mean loss over this rank's sequences, 0 on ranks without the last stage.
            squares: this rank's share of the squared gradient norm (`clip.squared_norm_share`).
            stop: whether this rank received SIGTERM.
            saving: whether this rank still writes a checkpoint.
        """
        flags = torch.tensor([stop, saving], dtype=torch.float64, device=squares.device)
        share = loss.double() / self._loss_copies
        vector = torch.cat((torch.stack((share, squares)), flags))
        if self._injector.due(WrongShape, number):
            vector = torch.cat((vector, vector))
        if self._runtime.world > 1:
            nbytes = vector.numel() * vector.element_size()
            with self._watch.collective("all_reduce", group=None, nbytes=nbytes):
                self._injector.reach("transfer", number)
                dist.all_reduce(vector)
        return ReducedStats(vector[0], vector[1].sqrt(), vector[2], vector[3])
