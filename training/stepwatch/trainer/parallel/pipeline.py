"""The pipeline: torch's schedule over this rank's stages.

Only a run with stages imports it: torch's pipelining imports its compiler, which takes seconds.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, PipelineScheduleSingle

from stepwatch.trainer.config.options import Options
from stepwatch.trainer.config.sizes import VOCABULARY
from stepwatch.trainer.model.decoder import next_byte_loss

from .busy_time import BusyTime
from .local_model import LocalModel, autocast_dtype
from .runtime import Runtime

Schedule = PipelineScheduleSingle | PipelineScheduleMulti

_SINGLE: dict[str, type[PipelineScheduleSingle]] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}
_MULTI: dict[str, type[PipelineScheduleMulti]] = {
    "interleaved": ScheduleInterleaved1F1B,
    "zero-bubble": ScheduleInterleavedZeroBubble,
    "zbv": ScheduleZBVZeroBubble,
}


_BUSY_METHODS = ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk")


def _empty_hidden(model: LocalModel, options: Options) -> Tensor:
    sharded = options.model.precision == "bf16" and autocast_dtype(options) is None
    shape = options.parallel.mesh
    rows = options.parallel.batch // shape.data_ranks // options.parallel.microbatches
    return torch.empty(
        (rows, options.model.length // shape.tp, model.size.width),
        dtype=torch.bfloat16 if sharded else torch.float32,
        device="meta",
        requires_grad=True,
    )


def _stage(
    module: nn.Module, index: int, model: LocalModel, options: Options, runtime: Runtime
) -> PipelineStage:
    # Without these shapes torch infers them by an extra forward and backward.
    hidden = _empty_hidden(model, options)
    tokens = torch.empty((hidden.shape[0], options.model.length), dtype=torch.int64, device="meta")
    low = options.model.precision == "bf16"
    logits = torch.empty(
        (*tokens.shape, VOCABULARY),
        dtype=torch.bfloat16 if low else torch.float32,
        device="meta",
        requires_grad=True,
    )
    return PipelineStage(
        module,
        index,
        model.stage_count,
        runtime.device,
        input_args=tokens if index == 0 else hidden,
        output_args=logits if index == model.stage_count - 1 else hidden,
        group=runtime.mesh["pp"].get_group(),
    )


def build_schedule(
    model: LocalModel, options: Options, runtime: Runtime, busy: BusyTime
) -> Schedule:
    """Build the configured schedule over this rank's stages."""
    stages = [
        _stage(module, index, model, options, runtime)
        for module, index in zip(model.modules, model.stage_indices, strict=True)
    ]
    for stage in stages:
        for name in _BUSY_METHODS:
            setattr(stage, name, busy.count(getattr(stage, name)))
    count, name = options.parallel.microbatches, options.parallel.schedule
    if name in _SINGLE:
        return _SINGLE[name](stages[0], count, loss_fn=next_byte_loss)
    return _MULTI[name](list(stages), count, loss_fn=next_byte_loss)
