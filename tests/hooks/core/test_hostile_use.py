"""What no trainer should do to the compiled core, and what Python does behind its back."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stepwatch.hooks.core import CORE, choice

BUILT = Path(choice.__file__).parent / "_native.abi3.so"
pytestmark = pytest.mark.skipif(
    CORE != choice.NATIVE, reason="the plain core runs: it has no memory of its own"
)
# Each program is a process of its own: a defect here ends it, and pytest with it.
PREPARED = """
import gc, importlib.util, os, shutil, sys, time
from pathlib import Path
from stepwatch.hooks import Watch
from stepwatch.hooks.core import _native as native
from stepwatch.hooks.guard import Guard
from stepwatch.hooks.recorder.recorder import Recorder
from stepwatch.signals.blackbox import Identity, RingReader, RingWriter
from stepwatch.signals.records import Kind

def watched(name):
    identity = Identity("job", 0, 0, 1, "node", os.getpid(), 1, capacity=64)
    ring = RingWriter(Path(sys.argv[1]) / name, identity)
    return Watch(Recorder(ring, Guard(), time.monotonic_ns))

class Backend:
    is_capturing = stream_key = None
    current_stream = staticmethod(lambda: 1)

class Event:
    def record(self, stream): pass
    def query(self): return True

class Bare: pass

def marks():
    made = native.EventMarks(Backend, [], Event, time.monotonic_ns)
    made.stream = made._key = 1
    return made

def raises(kind, function, *arguments):
    try:
        function(*arguments)
    except kind:
        return
    raise AssertionError(f"{function} raised no {kind}")

watch = watched("0")
recorder, timeline = watch.recorder, watch.recorder.timeline
step = watch.step(1)
step.__enter__()
"""
PROGRAMS = {
    "deleted attributes": """
for owner, names in (
    (step, ("tokens", "_loss", "_grad_norm")),
    (timeline, ("marks", "ended")),
    (marks(), ("stream", "_key", "is_capturing", "_stream_key", "_make", "clock", "_events")),
):
    for name in names:
        raises(TypeError, delattr, owner, name)
for name in ("drain_completions", "timeline", "ring"):
    delattr(recorder, name)
    step.__exit__(None, None, None)
    step.__enter__()
""",
    "boundaries that do not belong together": """
class Failing(native.EventMarks):
    def _fail(self, error):
        failed.append(type(error))
failed = []
made = Failing(Backend, [], Event, time.monotonic_ns)
made.stream = 1
made._moments, made._events = ["x"], [Event()]
made.mark(1, 0)
made._moments, made._events = [1], []
made.mark(1 << 40, 0)
assert failed == [TypeError, IndexError]
made = marks()
made._counts = {(1, 1): "x"}
raises(TypeError, native.EventMarks.enter_collective, made, 1, (1, 1))
""",
    "a stream that is replaced while its event is recorded": """
class Replacing:
    @property
    def record(self):
        made.stream = None
        return lambda stream: seen.append(type(stream))
seen = []
made = native.EventMarks(Backend, [], Replacing, time.monotonic_ns)
made.stream = Bare()
made.mark(1, 0)
assert seen == [Bare]
""",
    "places in the stack": """
for _ in range(3):
    timeline.enter(1)
expected = timeline.stack
for place in (-1, -2, -9, -(1 << 63), 0, 1, 4, 1 << 40, (1 << 63) - 1):
    timeline.insert_outer(place, 5)
    expected.insert(max(min(place, 1 << 62), -(1 << 62)), 5)
    assert timeline.stack == expected, place
for place in (-1, 1 << 40, -(1 << 63)):
    assert not timeline.remove_outer(place, 5)
""",
    "garbage that ends steps while attributes are read": """
class Garbage:
    def __init__(self): self.itself = self
    def __del__(self):
        timeline.write_collectives(1)
        while timeline.stack:
            timeline.leave()
gc.set_threshold(1)
for _ in range(50):
    for number in range(20):
        timeline.enter(1)
        timeline.depart(number, 1, 1, 1, 2)
    Garbage()
    repr(timeline.collectives), repr(timeline.stack)
""",
    "a core that was given no classes": """
file = shutil.copy(native.__file__, sys.argv[1])
spec = importlib.util.spec_from_file_location("_native", file)
other = importlib.util.module_from_spec(spec)
spec.loader.exec_module(other)
assert other is not native
other.EventMarks(Backend, [], Event, time.monotonic_ns)
raises(AttributeError, other.Step, Bare())
""",
    "memory that begins inside a word": """
memory = memoryview(bytearray(4096 + 4 * 128 + 8))
raises(ValueError, native.Slots, memory[1:-7], 4, {})
""",
    "a phase's name that ends the program": """
class Name(str):
    hashed = 0
    def __hash__(self):
        Name.hashed += 1
        if Name.hashed == 1:
            raise KeyboardInterrupt
        return str.__hash__(self)
raises(KeyboardInterrupt, step.phase, Name("forward"))
""",
    "a call that is initialised in vain": """
call = native.TimedCall.__new__(native.TimedCall)
bad = Bare()
bad.recorder, bad.groups = recorder, Bare()
bad.groups.numbers = []
before = sys.getrefcount(bad.groups)
for _ in range(9):
    raises(TypeError, call.__init__, bad, 1, 1, 1, "x", True)
assert sys.getrefcount(bad.groups) == before
""",
    "tuples as arguments": """
step.tokens = (5,)
step.__exit__(None, None, None)
reader = RingReader(Path(sys.argv[1]) / "0")
assert reader.read().rows[Kind.STEP]["tokens"].tolist() == [0]
assert watch.guard.errors == 1
step.__enter__()
class Tensor: nbytes = 1
owner = Bare()
call = native.TimedCall(watch.instruments, lambda *_: "result", 1, owner, "comm", True)
assert call(Tensor(), Tensor(), ()) == "result"
assert watch.guard.errors == 2
""",
    "a step's number below zero": """
step.__exit__(None, None, None)
step.__enter__()
recorder.step_number = timeline.step = -1
step.__exit__(None, None, None)
assert watch.guard.errors == 1, watch.guard.errors
reader = RingReader(Path(sys.argv[1]) / "0")
assert len(reader.read().rows[Kind.STEP]) == 1
""",
    "cycles through what C holds": """
class Owner(native.EventMarks):
    def call(self): pass
class Holder(native.State):
    def call(self): pass
def kinds():
    gc.collect()
    objects = [type(each) for each in gc.get_objects()]
    kinds = (Owner, Holder, native.Timeline, native.Step, native.Bucket)
    return [objects.count(kind) for kind in kinds]
before = kinds()
for number in range(1, 20):
    owner = Owner(Backend, [], Event, time.monotonic_ns)
    owner._make = owner.call
    holder = Holder()
    holder.drain_completions = holder.call
    other = watched(str(number))
    with other.step(1) as inner, inner.phase("forward"):
        pass
    looped = other.recorder.timeline
    looped.ended = looped.leave
    other.close()
del owner, holder, other, inner, looped
assert kinds() == before, (kinds(), before)
""",
}


def run(program: str, folder: Path) -> None:
    """Run a program on a watch of its own; it ends well."""
    words = [sys.executable, "-X", "dev", "-c", PREPARED + program, str(folder)]
    environ = {**os.environ, "STEPWATCH_QUIET": "1", "PYTHONMALLOC": "debug"}
    ran = subprocess.run(
        words, env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr[-2000:]


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_neither_ends_the_process_nor_leaks(name: str, tmp_path: Path) -> None:
    run(PROGRAMS[name], tmp_path)


def test_another_interpreter_of_the_process_does_not_get_it(tmp_path: Path) -> None:
    if importlib.util.find_spec("_xxsubinterpreters") is None:
        pytest.skip("this Python has no module for interpreters")
    file = shutil.copy(BUILT, tmp_path)
    inside = f"""
import importlib.util
spec = importlib.util.spec_from_file_location("_native", {file!r})
core = importlib.util.module_from_spec(spec)
spec.loader.exec_module(core)
try:
    core.use(None, None, None, None, (), None)
except ImportError:
    pass
else:
    raise AssertionError
"""
    run(
        f"import _xxsubinterpreters as others\nothers.run_string(others.create(), {inside!r})",
        tmp_path,
    )
