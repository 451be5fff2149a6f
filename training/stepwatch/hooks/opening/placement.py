"""The path of a process's ring: hidden under its own name until its rank is known.

A ring starts as a hidden file that no agent reads. It gets its place,
`<directory>/<job>/<attempt>/<rank>`, once its process is numbered. A launcher does so before Python
starts, `torch.distributed` does it later. A place with a living owner is never reassigned: another
launch with the same name is recorded as `<job>-2`.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from stepwatch.hooks.guard import Guard, guarded, logger
from stepwatch.hooks.identity import ALONE, base_attempt, in_named_mesh, is_spawned
from stepwatch.hooks.recorder.worker_server import socket_beside
from stepwatch.signals import places
from stepwatch.signals.blackbox import Identity, RingReader, RingWriter, find_rings, owner_lives
from stepwatch.signals.blackbox.layout import WORKER_SOCKET_SIZE
from stepwatch.signals.errors import ConfigurationError, RingError
from stepwatch.signals.places.turns import alone_in
from stepwatch.signals.processes import environment_at_start, start_ticks

from .launchers import RankInWorld, launch_key, rank_of_launcher, rank_of_torch

ALONE_AFTER_SECONDS = 30.0
"""A process without a number for so long is recorded as rank 0 of 1, before it steps."""
MOST_NAMES = 99
"""Simultaneous runs with one job name that a node records."""
_TURN_SECONDS = 3.0
"""How long a thread waits while another one in this process places the ring."""


class Placement:
    """Places this process's ring, and moves it if its rank changes.

    `declared` is the rank that a framework reported.
    """

    def __init__(
        self, ring: RingWriter, root: Path, declared: RankInWorld | None, guard: Guard
    ) -> None:
        self.guard = guard
        self.ring = ring
        self._root, self._declared = root, declared
        self._opened = time.monotonic()
        self._job = ring.identity.job
        self._placed: RankInWorld | None = None
        self._by_torch: RankInWorld | None = None
        """Torch's last rank: it stays valid after the trainer has destroyed its process group."""
        self._turn = threading.Lock()
        self._placing_thread = 0
        """The thread that places the ring: a signal handler on it must not wait for it."""

    def place_known(self) -> None:
        """Place the ring if the rank is known already.

        Raises:
            ConfigurationError: too many runs with this name live, or the mesh has another size.
            OSError: the directory cannot be written.
        """
        self._follow(assume_single=False)

    @guarded(fallback=False)
    def settle(self, *, assume_single: bool = True) -> bool:
        """Apply the currently known rank, and return whether that moved the ring.

        `assume_single`: a process without a number is rank 0 of 1.
        """
        if self.ring.identity.pid != os.getpid():  # a forked child
            return False
        return self._follow(assume_single)

    def wait(self) -> None:
        """Stop waiting for a number; a side thread calls this now and then.

        A multiprocessing child keeps waiting: it is one of several.
        """
        waited = time.monotonic() - self._opened
        if self._placed is None and waited > ALONE_AFTER_SECONDS and not is_spawned():
            self.settle()

    def _follow(self, assume_single: bool) -> bool:
        thread = threading.get_ident()
        if self._placing_thread == thread or not self._turn.acquire(timeout=_TURN_SECONDS):
            return False
        self._placing_thread = thread
        try:
            place = self._current_place(assume_single)
            if place is None or place == self._placed:
                return False
            if place is ALONE:
                logger.info("stepwatch: no launcher numbered this process: watching as rank 0 of 1")
            self._place(place)
            return True
        finally:
            self._placing_thread = 0
            self._turn.release()

    def _current_place(self, assume_single: bool) -> RankInWorld | None:
        self._by_torch = rank_of_torch() or self._by_torch
        first = self._by_torch or self._declared or _numbered_by_launcher(of_parent=assume_single)
        return first or self._placed or (ALONE if assume_single else None)

    def _place(self, place: RankInWorld) -> None:
        with alone_in(self._root):
            wanted = in_named_mesh(
                self.ring.identity._replace(
                    job=self._job, rank=place.rank, world=place.world, launch=launch_key(os.environ)
                ),
                os.environ,
            )
            job = free_name(self._root, wanted, base_attempt(os.environ))
            path = self._root / job / str(wanted.attempt) / str(wanted.rank)
            socket = self.ring.identity.worker_socket
            self.ring.move(path, with_socket(wanted._replace(job=job), path))
            _move_socket(socket, path)
            self._placed = place
        if job != self._job and int(os.environ.get("LOCAL_RANK") or place.rank) == 0:
            logger.warning(
                "stepwatch: another run is recorded as job %s on this node: this one is %s; "
                "name each with STEPWATCH_JOB or `stepwatch run --job`",
                self._job,
                job,
            )


def _numbered_by_launcher(*, of_parent: bool) -> RankInWorld | None:
    """Return the launcher's rank; `of_parent`: also if it numbered this process's parent.

    A rank that `multiprocessing` spawns begins with its parent's variables and may set its own.
    """
    number = rank_of_launcher(os.environ)
    if number is None or of_parent or not is_spawned():
        return number
    return number if number != rank_of_launcher(environment_at_start()) else None


def hidden_path(root: Path, identity: Identity) -> Path:
    """Return the path of a ring without a place; no reader looks there."""
    return root / f".{identity.pid}.{identity.ring_id:x}"


def remove_left_over(root: Path) -> None:
    """Remove hidden rings whose owner ended before it had a place."""
    now_ns = time.monotonic_ns()
    for path in root.glob(".*.*"):
        with contextlib.suppress(RingError, OSError):
            reader = RingReader(path)
            lives = owner_lives(reader, now_ns)
            reader.close()
            if not lives:
                path.unlink()


def free_name(root: Path, wanted: Identity, base: int = 0) -> str:
    """Return the job name for `wanted`: its own, or a numbered one if another launch has that.

    A name that ranks in the same launch have comes first. Attempts before `base` are earlier ones
    in the same job, whose ranks may still be ending.

    Raises:
        ConfigurationError: too many runs with this name live.
    """
    free = ""
    for number in range(1, MOST_NAMES + 1):
        name = wanted.job if number == 1 else f"{wanted.job[: places.NAME_LIMIT - 3]}-{number}"
        ours, occupied = False, False
        for identity, lives in _rings_of(root / name):
            if identity.ring_id != wanted.ring_id:
                ours |= identity.launch == wanted.launch
                occupied |= lives and _is_in_the_way(identity, wanted, base)
                occupied |= _is_of_another_rank(identity, wanted)
        if ours and not occupied:
            return name
        free = free or ("" if occupied else name)
    if not free:
        raise ConfigurationError(
            f"{MOST_NAMES} runs called {wanted.job} live on this node; name them with STEPWATCH_JOB"
        )
    return free


def _is_in_the_way(identity: Identity, wanted: Identity, base: int) -> bool:
    """Return whether a living ring prevents `wanted` from using its job name."""
    same_place = (identity.attempt, identity.rank) == (wanted.attempt, wanted.rank)
    other_launch = identity.launch not in ("", wanted.launch)
    return same_place or (other_launch and identity.attempt >= base)


def _is_of_another_rank(identity: Identity, wanted: Identity) -> bool:
    """Return whether another living process in the same launch recorded at `wanted`'s place.

    Its ring may be closed: both are ranks, under one number by mistake, and neither record is lost.
    """
    place = (wanted.launch, wanted.attempt, wanted.rank, wanted.pid_namespace)
    same_place = (identity.launch, identity.attempt, identity.rank, identity.pid_namespace) == place
    started = start_ticks(identity.pid) if same_place and identity.pid != wanted.pid else 0
    return started != 0 and started == identity.process_start


def _rings_of(folder: Path) -> Iterator[tuple[Identity, bool]]:
    now_ns = time.monotonic_ns()
    for path in find_rings(folder):
        with contextlib.suppress(RingError):
            reader = RingReader(path)
            yield reader.identity, owner_lives(reader, now_ns)
            reader.close()


def with_socket(identity: Identity, ring: Path) -> Identity:
    """Return `identity` with its worker server's socket, unless the path exceeds its field."""
    path = str(socket_beside(ring.absolute()))
    fits = len(os.fsencode(path)) <= WORKER_SOCKET_SIZE
    return identity._replace(worker_socket=path if fits else "")


def _move_socket(socket: str, target: Path) -> None:
    """Move a listening socket along; clients find it by its new path."""
    if socket:
        with contextlib.suppress(OSError):
            os.rename(socket, socket_beside(target))
