"""A ring file's byte layout.

Identity is little-endian and covered by a CRC. The live fields have their own cache lines and are
written in native byte order as whole machine words: a packed little-endian store with `struct`
writes byte by byte and could be read half-done.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np

from stepwatch.signals.places import is_name
from stepwatch.signals.records import BODIES, RING_KINDS, DeviceState, Kind

MAGIC = b"SWRING01"
HEADER_SIZE = 4096
SLOT_SIZE = 128
DEFAULT_CAPACITY = 4096
"""Slots per ring: 512 KiB; at four records a step and one step a second, 17 minutes."""
MAX_CAPACITY = 1 << 20
IDENTITY_VERSION = 1
"""A reader that cannot read the layout block reads only this version, with its own slots.

It rises when a field in a slot moves.
"""

WORKER_SOCKET_SIZE = 256
"""Bytes in the path of a rank's worker socket."""
_IDENTITY = struct.Struct(f"<8s4I Q 4i 8h 2Q i I Q 64s 64s 32s {WORKER_SOCKET_SIZE}s Q 16s Q I Q")
IDENTITY_CRC_AT = 1016
LIVE_AT = 1024
HEARTBEAT_AT = 1040
HOOK_ERRORS_AT = 1048
COLLECTIVE_AT = 1088
DEVICE_AT = 1112
HEAD_AT = 1152
CLOSED_AT = 1160

MESH_AXES = ("pp", "dp_replicate", "dp_shard", "tp")


class Identity(NamedTuple):
    """The identity of a ring's writer.

    `mesh_index` and `mesh_size` follow `MESH_AXES`. `process_start` is the kernel's start time for
    the process in clock ticks, so that a reused pid is not taken for the rank. The clock pair is in
    nanoseconds. `pid_namespace` numbers the namespace of `pid`. `launch` is the same in all ranks
    in one launch on a node, and differs between launches. `boot` numbers the process's kernel run.
    `launcher` and `launcher_start` are the pid and start of the process that restarts it when it
    ends, like its own `pid` and `process_start`. A number that the writer cannot read is 0, and a
    process that is not restarted has no launcher.
    """

    job: str
    attempt: int
    rank: int
    world: int
    node: str
    pid: int
    ring_id: int
    capacity: int = DEFAULT_CAPACITY
    mesh_index: tuple[int, int, int, int] = (0, 0, 0, 0)
    mesh_size: tuple[int, int, int, int] = (1, 1, 1, 1)
    monotonic_ns: int = 0
    wall_ns: int = 0
    device: int = -1
    process_start: int = 0
    job_class: str = "experiment"
    worker_socket: str = ""
    pid_namespace: int = 0
    launch: str = ""
    boot: int = 0
    launcher: int = 0
    launcher_start: int = 0

    @property
    def stage(self) -> int:
        """The rank's pipeline stage."""
        return self.mesh_index[0]


class LiveLine(NamedTuple):
    """A rank's current work: 16 bytes, one store per change. `since_ns` is monotonic.

    `waiting` is set while a pipeline stage waits for its neighbours.
    """

    since_ns: int
    step: int
    microbatch: int
    phase: int
    waiting: bool = False


class CollectiveLine(NamedTuple):
    """A rank's newest collective: its entry moment, its operation, and whether it is still inside.

    `group` holds the low 16 bits of the group's number, `nbytes` the rank's input in bytes.
    """

    since_ns: int
    entered: int
    group: int
    op: int
    inside: bool
    nbytes: int = 0


class DeviceLine(NamedTuple):
    """The current work of the compute stream on a rank's device: step, phase, state and start.

    `since_ns` is monotonic: when the device was first seen there. `op` and `group` (its low 16
    bits) are valid in a collective.
    """

    since_ns: int
    step: int
    phase: int
    state: DeviceState
    op: int = 0
    group: int = 0


def pack_identity(identity: Identity) -> bytes:
    """Return the identity as a ring's first `IDENTITY_CRC_AT` + 4 bytes."""
    raw = _IDENTITY.pack(
        MAGIC,
        IDENTITY_VERSION,
        SLOT_SIZE,
        identity.capacity,
        identity.attempt,
        identity.ring_id,
        identity.rank,
        identity.world,
        identity.pid,
        0,
        *identity.mesh_index,
        *identity.mesh_size,
        identity.monotonic_ns,
        identity.wall_ns,
        identity.device,
        0,
        identity.process_start,
        identity.job.encode(),
        identity.node.encode(),
        identity.job_class.encode(),
        identity.worker_socket.encode(),
        identity.pid_namespace,
        identity.launch.encode(),
        identity.boot,
        identity.launcher,
        identity.launcher_start,
    ).ljust(IDENTITY_CRC_AT, b"\0")
    return raw + zlib.crc32(raw).to_bytes(4, "little")


def unpack_identity(header: bytes, *, described: bool = False) -> Identity:
    """Read an identity; also a later version's, if the ring describes its slots.

    Raises:
        ValueError: wrong magic, version, sizes, rank, world, job name or checksum; the message says
            which.
    """
    raw = header[:IDENTITY_CRC_AT]
    if len(header) < HEADER_SIZE or raw[:8] != MAGIC:
        raise ValueError("not a stepwatch ring")
    if zlib.crc32(raw) != int.from_bytes(header[IDENTITY_CRC_AT : IDENTITY_CRC_AT + 4], "little"):
        raise ValueError("its header does not match its checksum")
    fields = _IDENTITY.unpack_from(raw)
    version, slot_size, capacity, attempt, ring_id, rank, world, pid, _ = fields[1:10]
    if version != IDENTITY_VERSION and not (described and version > IDENTITY_VERSION):
        raise ValueError(f"written with schema {version}, this stepwatch reads {IDENTITY_VERSION}")
    if slot_size != SLOT_SIZE:
        raise ValueError(f"slots of {slot_size} bytes, this stepwatch reads {SLOT_SIZE}")
    if not 1 <= capacity <= MAX_CAPACITY:
        raise ValueError(f"capacity {capacity} is out of range")
    if rank < 0 or world < 0:
        raise ValueError(f"there is no rank {rank} of {world}")
    texts = [
        value.rstrip(b"\0").decode("utf-8", "replace") for value in (*fields[23:27], fields[28])
    ]
    if not is_name(texts[0]):
        raise ValueError(f"its job name {texts[0]!r} is not one")
    return Identity(
        job=texts[0],
        attempt=attempt,
        rank=rank,
        world=world,
        node=texts[1],
        pid=pid,
        ring_id=ring_id,
        capacity=capacity,
        mesh_index=fields[10:14],
        mesh_size=fields[14:18],
        monotonic_ns=fields[18],
        wall_ns=fields[19],
        device=fields[20],
        process_start=fields[22],
        job_class=texts[2],
        worker_socket=texts[3],
        pid_namespace=fields[27],
        launch=texts[4],
        boot=fields[29],
        launcher=fields[30],
        launcher_start=fields[31],
    )


def pack_live(live: LiveLine) -> tuple[int, int]:
    """Return the live line as two 64-bit words; fields that overflow are cut to their width."""
    word = (live.step & 0xFFFFFFFF) | (live.microbatch & 0xFFFF) << 32 | (live.phase & 0xFF) << 48
    return live.since_ns, word | live.waiting << 56


def unpack_live(since_ns: int, word: int) -> LiveLine:
    """Inverse of `pack_live`."""
    return LiveLine(
        since_ns, word & 0xFFFFFFFF, word >> 32 & 0xFFFF, word >> 48 & 0xFF, bool(word >> 56)
    )


def unpack_collective(since_ns: int, word: int, nbytes: int = 0) -> CollectiveLine:
    """Return the collective line from two words.

    `word` holds entered (32 bits), group (16), op (8), inside (8); `nbytes` is its own word.
    """
    return CollectiveLine(
        since_ns,
        word & 0xFFFFFFFF,
        word >> 32 & 0xFFFF,
        word >> 48 & 0xFF,
        bool(word >> 56),
        nbytes,
    )


def pack_device(line: DeviceLine) -> tuple[int, int, int]:
    """Return the device line as three 64-bit words; fields that overflow are cut to their width."""
    word = line.step & 0xFFFFFFFF | (line.phase & 0xFF) << 32 | (line.op & 0xFF) << 40
    return line.since_ns, word | (line.group & 0xFFFF) << 48, int(line.state)


def unpack_device(since_ns: int, word: int, state: int) -> DeviceLine:
    """Inverse of `pack_device`; a later version's state is unknown."""
    device_state = DeviceState(state) if state in _DEVICE_STATES else DeviceState.UNKNOWN
    return DeviceLine(
        since_ns, word & 0xFFFFFFFF, word >> 32 & 0xFF, device_state, word >> 40 & 0xFF, word >> 48
    )


_DEVICE_STATES = frozenset(DeviceState)
_CODES = dict(
    zip(["<u2", "<u4", "<u8", "<i2", "<i4", "<i8", "<f4", "<f8"], "HIQhiqfd", strict=True)
)


def _slot_struct(kind: Kind) -> struct.Struct:
    codes = "".join(_CODES.get(code) or f"{code.removeprefix('S')}s" for _, code in BODIES[kind])
    packed = struct.Struct("<QHHIQ" + codes)
    padding = SLOT_SIZE - 4 - packed.size
    if padding < 0:
        raise AssertionError(f"{kind.name} needs {packed.size} bytes of {SLOT_SIZE - 4}")
    return struct.Struct(f"<QHHIQ{codes}{padding}x")


SLOT_STRUCTS: dict[Kind, struct.Struct] = {kind: _slot_struct(kind) for kind in RING_KINDS}
"""Packs (seq, kind, 0, step, time_ns, *body) into a slot without its last four bytes, the CRC."""

SLOT_HEAD = [("seq", "<u8"), ("kind", "<u2"), ("reserved", "<u2"), ("step", "<u4")]
"""The start of every slot; the number and the kind keep their position in all versions."""


def _slot_dtype(kind: Kind) -> np.dtype[np.void]:
    fields = [*SLOT_HEAD, ("time_ns", "<u8"), *BODIES[kind]]
    used = np.dtype(fields).itemsize
    return np.dtype([*fields, ("rest", f"V{SLOT_SIZE - used}")])


SLOT_DTYPES: dict[Kind, np.dtype[np.void]] = {kind: _slot_dtype(kind) for kind in RING_KINDS}
"""The same slot as numpy reads it; `rest` ends with the CRC."""
