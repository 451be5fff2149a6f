"""Profiles of one rank's steps, asked for through its worker server."""

from __future__ import annotations

import ctypes
import json
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from stepwatch.hooks.guard import guarded
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.profiles import ASK_HANDLER, FETCHED_HANDLER, RESULT_HANDLER, ProfileState
from stepwatch.signals.records import StepFlag

from .request import ProfileRequest
from .session import Session

LEAST_SECONDS_BETWEEN = 60.0
"""Seconds from one profile's end to the next one's request: profiled steps are slower."""
_PROFILED = int(StepFlag.PROFILED)


class StepProfiler:
    """Runs one requested profile at a time; without a request a step pays one attribute read.

    Requests arrive on the worker server's thread. Profiles run on the training thread.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.guard = recorder.guard
        self.active = False
        """Whether `end_step` must be called."""
        self._recorder = recorder
        self._lock = threading.Lock()
        self._request: ProfileRequest | None = None
        self._session: Session | None = None
        self._first = 0
        self._state, self._reason = ProfileState.NONE, ""
        self._trace = b""
        self._begin_until_s = 0.0
        """Time on the monotonic clock at which a pending request ends."""
        self._ended_s = -LEAST_SECONDS_BETWEEN
        recorder.server.started = self._register

    def ask(self, request: ProfileRequest) -> dict[str, Any]:
        """Accept a request or refuse it; return the state as a JSON object."""
        with self._lock:
            self._end_overdue()
            if self._request == request:  # repeated
                return self._document()
            reason = self._refusal()
            if reason:
                return {"state": ProfileState.REFUSED, "reason": reason}
            self._request, self._trace = request, b""
            self._begin_until_s = time.monotonic() + request.seconds
            self._state, self._reason = ProfileState.PENDING, ""
            self.active = True
            return self._document()

    def result(self, name: str) -> bytes:
        """Return the packed trace of request `name`, else its state as JSON."""
        with self._lock:
            if self._request is None or self._request.name != name:
                return _json({"state": ProfileState.NONE, "reason": "it was not requested"})
            self._end_overdue()
            return self._trace or _json(self._document())

    def release(self, name: str) -> None:
        """Release the trace of request `name`, which has been read."""
        with self._lock:
            if self._request is not None and self._request.name == name and self._trace:
                self._request, self._trace, self._state = None, b"", ProfileState.NONE

    @guarded()
    def answer_ask(self, request: Any) -> bytes:
        """Answer a call of `ASK_HANDLER`."""
        names = ("name", "first", "steps", "seconds")
        try:
            asked = ProfileRequest.parse(*map(request.get_param, names))
        except ValueError as error:
            return _json({"state": ProfileState.REFUSED, "reason": str(error)})
        return _json(self.ask(asked))

    @guarded()
    def answer_result(self, request: Any) -> bytes:
        """Answer a call of `RESULT_HANDLER`."""
        return self.result(request.get_param("name"))

    @guarded()
    def answer_fetched(self, request: Any) -> bytes:
        """Answer a call of `FETCHED_HANDLER`."""
        self.release(request.get_param("name"))
        return _json({"state": ProfileState.NONE})

    @guarded()
    def end_step(self, number: int) -> None:
        """Begin, continue or end the profile between step `number` and the next one."""
        request, following = self._request, number + 1
        if request is None or self._state not in (ProfileState.PENDING, ProfileState.RUNNING):
            self.active = False
            return
        if self._session is None:
            self._begin_if_due(request, following)
        elif self._session is not None and following >= self._first + request.steps:
            self._end(request)
            self._mark()
        if self._session is not None:
            self._session.begin_step(following)
            self._mark()

    @guarded()
    def close(self) -> None:
        """End a profile in progress: the rank stops recording."""
        self._abandon("the rank's hooks ended")

    def _begin_if_due(self, request: ProfileRequest, step: int) -> None:
        with self._lock:
            self._end_overdue()
            # Another request may have replaced an overdue one.
            if self._request is not request or self._state != ProfileState.PENDING:
                return
            if step < request.first:
                return
            self._state = ProfileState.RUNNING
        self._begin(step)

    def _begin(self, step: int) -> None:
        self._first, self._reason = step, "torch could not begin a profile"
        self._session = self._opened()
        if self._session is None:
            self._fail(self._reason)
        else:
            self._reason = ""

    def _end_overdue(self) -> None:
        """End a request whose first step did not begin in time; the caller holds the lock."""
        request = self._request
        if self._state != ProfileState.PENDING or request is None:
            return
        if time.monotonic() >= self._begin_until_s:
            reached = f"the rank is at step {self._recorder.step_number}"
            self._state = ProfileState.FAILED
            self._reason = f"step {request.first} did not begin in {request.seconds} s: {reached}"
            self.active = False

    @guarded()
    def _opened(self) -> Session | None:
        try:
            return Session(lambda: self._abandon("the trainer began its own profile"))
        except RuntimeError as error:  # torch's own
            self._reason = f"{type(error).__name__}: {error}"
            return None

    def _end(self, request: ProfileRequest) -> None:
        session, self._session = self._session, None
        self.active = False
        assert session is not None
        ring = self._recorder.ring
        facts = {
            "rank": -1 if ring is None else ring.identity.rank,
            "first": self._first,
            "steps": request.steps,
        }
        pack = self._stopped(session, facts)
        if pack is None:
            self._fail("torch could not end the profile")
            return
        threading.Thread(
            target=self._pack, args=(pack,), name="stepwatch-profile", daemon=True
        ).start()

    @guarded()
    def _stopped(self, session: Session, facts: dict[str, Any]) -> Callable[[], bytes]:
        return session.stop(facts)

    def _pack(self, pack: Callable[[], bytes]) -> None:
        trace = self._packed(pack)
        if not trace:
            self._fail(self._reason or "the trace could not be packed")
            return
        with self._lock:
            self._trace, self._state = trace, ProfileState.DONE
            self._ended_s = time.monotonic()

    @guarded(fallback=b"")
    def _packed(self, pack: Callable[[], bytes]) -> bytes:
        try:
            return pack()
        except (OSError, RuntimeError, ValueError) as error:
            self._reason = f"{type(error).__name__}: {error}"
            return b""

    @guarded()
    def _abandon(self, reason: str) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._fail(reason)
            session.abandon()

    def _fail(self, reason: str) -> None:
        with self._lock:
            self.active = False
            self._state, self._reason = ProfileState.FAILED, reason[:200]
            self._ended_s = time.monotonic()

    def _mark(self) -> None:
        timeline = self._recorder.timeline
        if timeline is not None:
            timeline.flags |= _PROFILED

    def _refusal(self) -> str:
        if self._recorder.timeline is None:
            return "the rank does not record"
        if self._state in (ProfileState.PENDING, ProfileState.RUNNING):
            return "another profile is in progress"
        passed = time.monotonic() - self._ended_s
        if passed < LEAST_SECONDS_BETWEEN:
            again_s = LEAST_SECONDS_BETWEEN - passed
            return f"a profile ended {passed:.0f} s ago: ask again in {again_s:.0f} s"
        return ""

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {"state": self._state, "step": self._recorder.step_number}
        if self._reason:
            document["reason"] = self._reason
        return document

    @guarded()
    def _register(self) -> None:
        """Make the worker server answer requests for this rank."""
        global _current
        _current = weakref.ref(self)
        _register_handlers()


_current: weakref.ref[StepProfiler] | None = None
_registered = False


def _register_handlers() -> None:
    global _registered
    if _registered:
        return
    from torch._C import _distributed_c10d as c10d

    register = getattr(c10d, "_register_handler", None)
    if register is not None:  # a torch without handlers in Python
        _registered = True
        for name, answer in (
            (ASK_HANDLER, StepProfiler.answer_ask),
            (RESULT_HANDLER, StepProfiler.answer_result),
            (FETCHED_HANDLER, StepProfiler.answer_fetched),
        ):
            handler = _answering(answer)
            register(name, handler)
            # Torch releases its handlers after Python has ended. To destroy a Python function then
            # would abort the process; one with a surplus reference is never destroyed.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handler))


def _answering(
    answer: Callable[[StepProfiler, Any], bytes | None],
) -> Callable[[Any, Any], None]:
    """Return a handler: no exception may reach the server, which would end the process."""

    def handle(request: Any, response: Any) -> None:
        profiler = None if _current is None else _current()
        body = None if profiler is None else answer(profiler, request)
        response.set_content(body or _REFUSED, "application/octet-stream")
        response.set_status(200)

    return handle


def _json(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


_REFUSED = _json({"state": ProfileState.REFUSED, "reason": "the rank cannot answer"})
