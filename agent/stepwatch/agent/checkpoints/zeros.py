"""Finds lost pages in files without CRCs: zeros that no tensor has by its nature.

Weights, masks and optimizer states hold zeros, and whole rows of them. A file system loses pages:
ranges that begin and end at a page's boundary, in the middle of a row, beside bytes that are set.

Example with rows of 6,000 bytes from byte 0: zeros from 8,192 to 12,288 begin inside row 1, so they
are lost; zeros from 12,000 to 18,000 are row 2.
"""

from __future__ import annotations

from .facts import FileFacts, Tensor
from .limits import PAGE
from .reading import Window
from .sweep import Sweep

_LEAST_TENSORS = 8
"""Fewer may all be zero in a healthy file: a shard with one `lora_B`, or with new moments."""


def lost_ranges(window: Window, facts: FileFacts, swept: Sweep) -> list[tuple[Tensor, int, int]]:
    """Return each lost range with the tensor in which it begins or ends."""
    lost = []
    for start, stop in swept.zeros:
        first, last = _at(facts.tensors, start), _at(facts.tensors, stop - 1)
        begins_set = first is not None and _is_set(window, start - first.element, first.element)
        ends_set = last is not None and _is_set(window, stop, last.element)
        if not begins_set or not (ends_set or stop == window.size):
            continue
        for tensor, boundary in ((first, start), (last, stop)):
            if tensor is not None and _is_inside_row(tensor, boundary):
                lost.append((tensor, start, stop))
                break
    return lost


def is_all_zero(facts: FileFacts, swept: Sweep) -> bool:
    """Return whether all tensors of a file together are zero, over two pages at least."""
    if len(facts.tensors) < _LEAST_TENSORS:
        return False
    start, stop = facts.tensors[0].start, facts.tensors[-1].stop
    return stop - start >= 2 * PAGE and any(
        first <= start + PAGE and last >= stop for first, last in swept.zeros
    )


def _at(tensors: list[Tensor], position: int) -> Tensor | None:
    """Return the tensor of floats at a position."""
    low, high = 0, len(tensors)
    while low < high:
        middle = (low + high) // 2
        if tensors[middle].stop <= position:
            low = middle + 1
        else:
            high = middle
    if low == len(tensors) or tensors[low].start > position or not tensors[low].row:
        return None
    return tensors[low]


def _is_inside_row(tensor: Tensor, boundary: int) -> bool:
    inside = tensor.start < boundary < tensor.stop
    return inside and (boundary - tensor.start) % tensor.row != 0


def _is_set(window: Window, position: int, count: int) -> bool:
    return any(window.read(position, count))
