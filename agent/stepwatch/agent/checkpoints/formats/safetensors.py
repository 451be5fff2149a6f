"""Safetensors files: a header length, a JSON header, and the tensors without gaps.

https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import json
import math
from typing import Any

from stepwatch.agent.checkpoints.facts import FileFacts, Tensor
from stepwatch.agent.checkpoints.reading import DamageError, Session, UncheckableError, Window
from stepwatch.agent.checkpoints.result import Weight

from .torch_types import FLOATS, SAFETENSORS_BITS


def examine(window: Window, facts: FileFacts, session: Session) -> None:
    """Add tensors and problems to `facts`.

    Raises:
        DamageError: the header is damaged, or contradicts the file's size.
        UncheckableError: the header is larger than the limit.
        OSError: the storage cannot be read.
    """
    facts.format = "safetensors"
    length = int.from_bytes(window.read(0, 8), "little")
    if window.size < 8 or 8 + length > window.size:
        raise DamageError(f"its header of {length} bytes does not fit into {window.size} bytes")
    if length > session.limits.header_bytes:
        raise UncheckableError(f"its header has {length} bytes")
    header = _header(window.read(8, length))
    tensors = []
    for name, entry in header.items():
        if name != "__metadata__":
            tensors.append(_tensor(facts, name, entry, 8 + length))
    tensors.sort(key=lambda tensor: (tensor.start, tensor.stop))
    position = 8 + length
    for tensor in tensors:
        if tensor.start != position:
            raise DamageError(f"its tensor {tensor.name} starts at {tensor.start}, not {position}")
        position = tensor.stop
    if position > window.size:
        raise DamageError(f"it is cut short: {window.size} bytes instead of {position}")
    if position < window.size:
        raise DamageError(f"{window.size - position} bytes follow its last tensor")
    facts.tensors = tensors
    facts.keys = frozenset(tensor.name for tensor in tensors)


def _header(data: bytes) -> dict[str, Any]:
    try:
        header = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise DamageError("its header is no JSON") from error
    if not isinstance(header, dict):
        raise DamageError("its header is no JSON object")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice")
    return result


def _tensor(facts: FileFacts, name: str, entry: Any, base: int) -> Tensor:
    """Return one tensor's place; its size must be that of its type and shape."""
    match entry:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [int(start), int(stop)]}:
            pass
        case _:
            raise DamageError(f"its header describes {name[:80]!r} wrongly")
    if not all(type(n) is int and n >= 0 for n in shape) or not 0 <= start <= stop:
        raise DamageError(f"its header describes {name[:80]!r} wrongly")
    bits = SAFETENSORS_BITS.get(dtype)
    if bits is None:
        facts.add(f"its tensor {name} has an unknown type, {dtype[:20]}", Weight.NOTICE)
    elif -(-math.prod(shape) * bits // 8) != stop - start:
        size = -(-math.prod(shape) * bits // 8)
        raise DamageError(f"its tensor {name} has {stop - start} bytes instead of {size}")
    # Only matrices of floats have rows that are compared with zero pages.
    has_rows = dtype in FLOATS and len(shape) > 1
    row = shape[-1] * (bits or 0) // 8 if has_rows else 0
    return Tensor(name, base + start, base + stop, row, (bits or 8) // 8)
