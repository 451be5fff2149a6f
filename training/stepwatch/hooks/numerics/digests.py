"""Digests of parameters that replicas must agree on, to find the replica that computes wrongly.

Replicas under data parallelism hold the same bits after every optimizer step. Every `EVERY` steps a
rank digests one part of each set of parameters it shares. In the next step it digests the same part
again, which confirms a difference. The part depends only on the step: all replicas digest the same
part. A digest is a sum over 64-bit words that wraps, weighted by row and by column: one flipped bit
always changes it, and swapped words change it except in rare cases.

Parameters are read in place, in storage order; only small ones are copied, a few at a time.
Parameters with gaps in their storage are left out.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from stepwatch.hooks.accelerators import is_capturing
from stepwatch.hooks.communication.groups import GroupNumbers
from stepwatch.hooks.core.sampling import EVERY, REPEATS
from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.records import UNKNOWN_EXCHANGES, Kind, NumericsSource

from .deferred_scalars import DeviceTensor
from .replica_updates import ReplicaUpdates

LEAST_PART_BYTES, MOST_PART_BYTES = 4 << 20, 64 << 20
"""Least and most bytes that one digest reads; between them a 64th of the parameters."""
PARTS = 64
COPIED_BYTES = 1 << 20
"""Smaller pieces are copied together up to this size: each piece costs launches."""
HELD_DIGESTS = 64
_ROW = 1024
_MASK = (1 << 64) - 1
_SPREAD, _REST = 0x5851F42D4C957F2D, 0x2545F4914F6CDD1D  # odd, so that they lose no bit
_ENDS = 0x369DEA0F31A53F85, 0x27BB2EE687B0B0FD


class Piece(NamedTuple):
    """Elements `start` to `stop` of parameter number `parameter` in a set."""

    parameter: int
    start: int
    stop: int


class _Shared(NamedTuple):
    """Parameters of this rank that the other ranks in `group` hold too, cut into parts.

    `is_counted`: all are DistributedDataParallel's, whose exchanges are counted.
    """

    group: int
    is_counted: bool
    tensors: list[weakref.ref[Any]]
    parts: list[list[Piece]]


class _Pending(NamedTuple):
    step: int
    group: int
    part: int
    updates: tuple[int, int]
    digest: DeviceTensor


class Digests:
    """Digests the models' parameters, a part at a time."""

    def __init__(self, recorder: Recorder, groups: GroupNumbers, updates: ReplicaUpdates) -> None:
        self.guard = recorder.guard
        self._ring = recorder.ring
        self._groups = groups
        self._updates = updates
        self._models: list[weakref.ref[Any]] = []
        self._shared: list[_Shared] | None = None
        self._pending: deque[_Pending] = deque()
        self._out_of_memory = False

    def follow(self, model: Any) -> None:
        """Digest `model`'s parameters; the first digest finds out which are shared."""
        if all(reference() is not model for reference in self._models):
            self._models = [reference for reference in self._models if reference() is not None]
            self._models.append(weakref.ref(model))
            self._shared = None

    @guarded()
    def end_step(self, step: int, now_ns: int) -> None:
        """Digest this step's part if it has one, and write the results from devices."""
        while self._pending and (
            self._pending[0].digest.ready() or len(self._pending) > HELD_DIGESTS
        ):
            self._write_pending(self._pending.popleft(), now_ns)
        if (step + 1) % EVERY < REPEATS and step >= EVERY - 1 and self._models:
            self._digest(step, now_ns)

    def _digest(self, step: int, now_ns: int) -> None:
        if self._shared is None:
            self._shared = list(self._find_shared())
        for shared in self._shared:
            part = (step + 1) // EVERY % len(shared.parts)
            digest = self._digest_of(shared, part)
            counted = shared.is_counted
            updates = self._updates.take(shared.group) if counted else (UNKNOWN_EXCHANGES, 0)
            if isinstance(digest, DeviceTensor):
                self._pending.append(_Pending(step, shared.group, part, updates, digest))
            elif digest is not None:
                self._write(step, now_ns, shared.group, part, updates, digest)

    def _digest_of(self, shared: _Shared, part: int) -> int | DeviceTensor | None:
        """Return the step's digest; None after an allocation failure, for good.

        Each further attempt would empty the allocator's cache, which the trainer needs.
        """
        import torch

        if self._out_of_memory:
            return None
        try:
            return _digest_of(shared, part)
        except torch.OutOfMemoryError:
            self._out_of_memory = True
            self.guard.misuse("no device memory for digests of parameters: they are left out")
            return None

    def _write_pending(self, pending: _Pending, now_ns: int) -> None:
        if pending.digest.ready():
            value = int(pending.digest.host())
            self._write(pending.step, now_ns, pending.group, pending.part, pending.updates, value)

    def _write(
        self, step: int, now_ns: int, group: int, part: int, updates: tuple[int, int], digest: int
    ) -> None:
        if self._ring is not None:
            source = int(NumericsSource.PARAMETERS)
            self._ring.write(
                Kind.NUMERICS, step, now_ns, source, 0, digest & _MASK, group, part, b"", *updates
            )

    def _find_shared(self) -> Iterator[_Shared]:
        by_group: dict[int, list[Any]] = {}
        uncounted: set[int] = set()
        visited: set[int] = set()
        for reference in self._models:
            model = reference()
            for module in model.modules() if model is not None else ():
                for parameter, group in _replicated(module):
                    if id(parameter) not in visited and _flat(parameter) is not None:
                        visited.add(id(parameter))
                        number = self._groups.number(group)
                        by_group.setdefault(number, []).append(parameter)
                        if hasattr(parameter, "placements"):
                            uncounted.add(number)
        for number, parameters in sorted(by_group.items()):
            sizes = [
                (_local(parameter).numel(), _local(parameter).element_size())
                for parameter in parameters
            ]
            parts = cut(sizes)
            if parts:
                references = [weakref.ref(parameter) for parameter in parameters]
                yield _Shared(number, number not in uncounted, references, parts)


def cut(sizes: Iterable[tuple[int, int]]) -> list[list[Piece]]:
    """Cut parameters, given as (elements, bytes per element), into parts with bounded size."""
    sizes = list(sizes)
    total = sum(count * width for count, width in sizes)
    limit = min(max(total // PARTS, LEAST_PART_BYTES), MOST_PART_BYTES)
    parts: list[list[Piece]] = []
    room = 0
    for index, (count, width) in enumerate(sizes):
        start = 0
        while start < count:
            if room < width:
                parts.append([])
                room = limit
            stop = min(count, start + room // width)
            parts[-1].append(Piece(index, start, stop))
            room -= (stop - start) * width
            start = stop
    return parts


def _replicated(module: Any) -> Iterator[tuple[Any, Any]]:
    """Yield parameters that other ranks hold too, each with its ranks' group."""
    ignored = getattr(module, "parameters_to_ignore", None)
    if ignored is not None and hasattr(module, "reducer"):  # DistributedDataParallel
        for name, parameter in module.module.named_parameters():
            if name not in ignored and not hasattr(parameter, "placements"):
                yield parameter, module.process_group
    for parameter in module.parameters(recurse=False):
        mesh = getattr(parameter, "device_mesh", None)
        for axis, placement in enumerate(getattr(parameter, "placements", ())):
            if placement.is_replicate() and mesh is not None and mesh.size(axis) > 1:
                yield parameter, mesh.get_group(axis)
                break


def _local(parameter: Any) -> Any:
    return parameter._local_tensor if hasattr(parameter, "_local_tensor") else parameter.detach()


def _flat(parameter: Any) -> Any:
    """Return its elements in storage order, not copied; None if it is left out."""
    import torch

    local = _local(parameter).detach()
    if local.layout != torch.strided or local.device.type == "meta":
        return None
    expected = 1
    for stride, size in sorted(zip(local.stride(), local.shape, strict=True)):
        if size != 1 and stride != expected:
            return None
        expected *= size
    return local.as_strided((local.numel(),), (1,))


def _digest_of(shared: _Shared, part: int) -> int | DeviceTensor | None:
    """Return one part's digest, on a device still pending; None if it cannot be read now."""
    import torch

    pieces = []
    for index, start, stop in shared.parts[part]:
        parameter = shared.tensors[index]()
        flat = None if parameter is None else _flat(parameter)
        if flat is None:  # freed, or moved to an unsupported place
            return None
        pieces.append(flat[start:stop].view(torch.uint8))
    devices = {piece.device for piece in pieces}
    kind = next((device.type for device in devices if device.type != "cpu"), None)
    # Pinning memory would break the capture of a graph.
    if len(devices) > 1 or (kind is not None and is_capturing(kind)):
        return None
    digest = digest_of_pieces(pieces)
    return int(digest) if kind is None else DeviceTensor(digest)


def digest_of_pieces(pieces: Iterable[Any]) -> Any:
    """Return the digest of flat uint8 tensors on one device, a tensor with one int64; wraps."""
    digests = (
        digest_of_bytes(octets) * (index * 2 + 1) for index, octets in enumerate(_joined(pieces))
    )
    return functools.reduce(operator.add, digests)


def _joined(pieces: Iterable[Any]) -> Iterator[Any]:
    """Yield large pieces unchanged, small ones copied together."""
    import torch

    small: list[Any] = []
    copied_bytes = 0
    for piece in pieces:
        if piece.numel() >= COPIED_BYTES:
            yield piece
            continue
        small.append(piece)
        copied_bytes += piece.numel()
        if copied_bytes >= COPIED_BYTES:
            yield torch.cat(small)
            small, copied_bytes = [], 0
    if small:
        yield torch.cat(small)


def digest_of_bytes(octets: Any) -> Any:
    """Return the digest of a flat uint8 tensor, a tensor with one int64; wraps.

    Words are read at the storage's alignment; the bytes before and after them are copied.
    """
    import torch

    if octets.numel() < _ROW:
        octets = torch.cat([octets, octets.new_zeros(-octets.numel() % 8)])
    aligned_begin = -octets.storage_offset() % 8
    aligned_end = aligned_begin + (octets.numel() - aligned_begin) // 8 * 8
    ends = octets[:aligned_begin], octets[aligned_end:]
    digest = _digest_of_words(octets[aligned_begin:aligned_end].view(torch.int64))
    for weight, end in zip(_ENDS, ends, strict=True):
        if end.numel():
            padded = torch.cat([end, end.new_zeros(8 - end.numel())])
            digest = digest + padded.view(torch.int64)[0] * weight
    return digest


def _digest_of_words(words: Any) -> Any:
    row_words = words.numel() // _ROW * _ROW
    rows = words[:row_words].view(-1, _ROW)
    tail = words[row_words:]
    # An odd weight for rows plus an even one for columns is odd: no bit can vanish.
    return _weighted(rows.sum(dim=1)) + _weighted(rows.sum(dim=0)) * 2 + _weighted(tail) * _REST


def _weighted(words: Any) -> Any:
    """Return the sum of words times odd numbers that differ by position."""
    import torch

    positions = torch.arange(words.numel(), dtype=torch.int64, device=words.device)
    return (words * ((positions * 2 + 1) * _SPREAD)).sum()
