"""The module `torch.sim`, with the attributes that torch looks up on a device module such as
`torch.cuda`.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

NAME = "sim"


def _event(enable_timing: bool = False, **_: Any) -> torch.Event:
    return torch.Event(NAME, enable_timing=enable_timing)


def _stream(device: Any = None, priority: int = 0, **_: Any) -> torch.Stream:
    return torch.Stream(NAME, priority=priority)


@contextmanager
def _use_stream(stream: torch.Stream | None) -> Iterator[torch.Stream | None]:
    if stream is None:
        yield None
        return
    with stream:
        yield stream


def _default_stream(device: Any = None) -> torch.Stream:
    kind = torch.accelerator.current_stream().device_type
    return torch.Stream(stream_id=0, device_index=0, device_type=kind)


@contextmanager
def _capture(graph: Any) -> Iterator[None]:
    graph.begin()
    try:
        yield
    finally:
        graph.end()


def build(native: Any) -> types.ModuleType:
    """Return the module; `native` is the compiled extension."""
    module = types.ModuleType("torch.sim")
    module.__dict__.update(
        is_available=lambda: True,
        is_initialized=lambda: True,
        init=lambda: None,
        _lazy_init=lambda: None,
        _is_in_bad_fork=native.in_bad_fork,
        device_count=lambda: 1,
        current_device=lambda: 0,
        set_device=lambda device: None,
        get_amp_supported_dtype=lambda: [torch.bfloat16, torch.float16],
        manual_seed=lambda seed: default_generator(native).manual_seed(seed),
        manual_seed_all=lambda seed: default_generator(native).manual_seed(seed),
        get_rng_state=lambda device=None: default_generator(native).get_state(),
        set_rng_state=lambda state, device=None: default_generator(native).set_state(state),
        Event=_event,
        Stream=_stream,
        stream=_use_stream,
        set_stream=torch.accelerator.set_stream,
        current_stream=lambda device=None: torch.accelerator.current_stream(),
        default_stream=_default_stream,
        synchronize=lambda device=None: torch.accelerator.synchronize(),
        memory_allocated=lambda device=None: native.bytes_allocated(),
        device=torch.device,
        Graph=native.Graph,
        graph=_capture,
        is_current_stream_capturing=native.is_capturing,
    )
    return module


def default_generator(native: Any) -> torch.Generator:
    """Return the generator that operations without one of their own draw their seeds from."""
    generator: torch.Generator = native.default_generator()
    return generator
