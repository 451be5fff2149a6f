"""Kernel limit checks: shared memory, open files, locked memory, clock."""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from stepwatch.agent.relay import problems
from stepwatch.agent.relay.answers import read_body
from stepwatch.agent.relay.client import connect
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.http import HttpError

from .result import Outcome, Problem, Result, Surroundings

LEAST_SHARED_BYTES = 64 << 20
ENOUGH_SHARED_BYTES = 1 << 30
LEAST_FILES = 4096
CLOCK_SECONDS = 2.0
_UNSYNCHRONISED = 0x0040
"""STA_UNSYNC in `linux/timex.h`."""


def check(around: Surroundings) -> Iterator[Result]:
    """Check shared memory, file descriptors, locked memory, the clock and the collector."""
    yield _shared_memory(around)
    yield _files()
    yield _locked_memory(around)
    yield _clock()
    yield _collector(around)


def _shared_memory(around: Surroundings) -> Result:
    source = (
        "Docker gives 64 MiB unless asked (--shm-size); PyTorch's loaders and NCCL pass data "
        "through it, and a gibibyte is the least that serves a node of eight ranks"
    )
    try:
        volume = os.statvfs(around.shared_memory)
    except OSError as error:
        return Result("shared-memory", Outcome.UNKNOWN, f"{around.shared_memory}: {error.strerror}")
    total = volume.f_blocks * volume.f_frsize
    text = f"{around.shared_memory} has {total / (1 << 30):.2f} GiB"
    remedy = "start the container with --shm-size=8g, or mount a larger tmpfs"
    if total > ENOUGH_SHARED_BYTES:
        return Result("shared-memory", Outcome.PASS, text, "", source)
    outcome = Outcome.FAIL if total <= LEAST_SHARED_BYTES else Outcome.WARN
    return Result("shared-memory", outcome, text, remedy, source, Problem.USER)


def _files() -> Result:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"{soft} files may be open (hard limit {hard})"
    source = "a rank with loaders and hundreds of peers opens thousands; Debian begins with 1024"
    if soft >= LEAST_FILES or soft == resource.RLIM_INFINITY:
        return Result("open-files", Outcome.PASS, text, "", source)
    remedy = f"ulimit -n {min(hard, 65536) if hard > 0 else 65536} before the job starts"
    return Result("open-files", Outcome.WARN, text, remedy, source, Problem.USER)


def _locked_memory(around: Surroundings) -> Result:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    shown = "no limit" if soft == resource.RLIM_INFINITY else f"{soft >> 10} KiB"
    text = f"locked memory: {shown}"
    source = (
        "RDMA registers memory, which locks it; NCCL's troubleshooting guide asks for unlimited"
    )
    if not (around.sys / "class" / "infiniband").is_dir():
        return Result("locked-memory", Outcome.PASS, f"{text}; no RDMA card needs more", "", source)
    if soft == resource.RLIM_INFINITY:
        return Result("locked-memory", Outcome.PASS, text, "", source)
    remedy = "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit that starts the job"
    return Result("locked-memory", Outcome.FAIL, text, remedy, source)


class _Timex(ctypes.Structure):
    """The first fields in `struct timex` (adjtimex(2)) on 64-bit Linux; `room` is padding."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("room", ctypes.c_char * 256),
    )


def _clock() -> Result:
    timex = _Timex()
    source = "adjtimex(2): the kernel's own word on whether something disciplines its clock"
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except AttributeError:
        state = -1
    if state < 0:
        return Result("clock", Outcome.UNKNOWN, "the kernel reports no value", "", source)
    if timex.status & _UNSYNCHRONISED:
        remedy = (
            "start chronyd or systemd-timesyncd; in a virtual machine, ask for the host's clock"
        )
        return Result("clock", Outcome.WARN, "nothing keeps the clock right", remedy, source)
    error = timex.maxerror / 1e6
    return Result("clock", Outcome.PASS, f"kept right to {error:.3f} s at most", "", source)


def _collector(around: Surroundings) -> Result:
    if not around.collector:
        return Result("collector", Outcome.UNKNOWN, "not asked: pass --collector")
    try:
        # The agent's greeting request: nothing is stored, and an agent token suffices.
        with (
            connect(around.collector, around.access, 5.0) as client,
            client.stream("POST", "/v1/segments") as answer,
        ):
            read_body(answer)
    except ConfigurationError as error:
        return _no_answer(around.collector, str(error))
    except HttpError as error:
        problem = problems.of_error(error, client.address)
        return _no_answer(around.collector, problem.text)
    if answer.status_code != HTTPStatus.OK:
        text = f"{around.collector} answers {answer.status_code}"
        refused = answer.status_code in (401, 403)
        remedy = "pass --token-file with an agent's token" if refused else "look at its log"
        return Result("collector", Outcome.WARN, text, remedy)
    return _clock_of_collector(around.collector, answer.headers.get("date", ""))


def _no_answer(collector: str, why: str) -> Result:
    text = f"{collector} does not answer: {why}"
    remedy = "records wait in the agent's spool meanwhile; look at the collector and the network"
    return Result("collector", Outcome.WARN, text, remedy)


def _clock_of_collector(collector: str, date: str) -> Result:
    """Compare clocks by the answer's date; whole seconds suffice to find an offset of minutes."""
    source = "step times of nodes are compared on the collector: clocks should agree to a second"
    try:
        off = time.time() - parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError):
        return Result("collector", Outcome.PASS, f"{collector} answers", "", source)
    if -CLOCK_SECONDS <= off <= CLOCK_SECONDS + 1.0:
        text = f"{collector} answers, and its clock agrees to {CLOCK_SECONDS:.0f} s"
        return Result("collector", Outcome.PASS, text, "", source)
    remedy = "set both clocks by NTP"
    text = f"the clock is {off:+.0f} s off that of {collector}"
    return Result("collector", Outcome.WARN, text, remedy, source)
