"""Verifies one checkpoint: structure first, then one pass over every byte."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType

from stepwatch.signals.phrases import file_problem

from .facts import FileFacts
from .folder import Entry, Folder, Tree, walk
from .formats import detect
from .layouts import FILE_LAYOUTS, LAYOUTS, PARTS, dcp, trainer
from .options import Options
from .reading import (
    DamageError,
    DeadlineError,
    Progress,
    ReadAhead,
    Session,
    UncheckableError,
    Window,
    open_regular,
)
from .result import FileDigest, Problem, Report, Weight, state_of
from .sweep import Span, Sweep, longest_zeros, sweep
from .zeros import is_all_zero, lost_ranges


def verify(path: str, options: Options | None = None, progress: Progress | None = None) -> Report:
    """Verify a file, a checkpoint folder, or a folder with several checkpoints.

    It never loads a pickle, writes nothing, and raises nothing for any content.
    """
    return _Verification(path, options or Options(), progress).report()


class _Opened:
    """A file that is open for reading, as a window."""

    def __init__(self, entry: Entry, owner: int | None) -> None:
        self._descriptor = open_regular(entry.place, owner)
        size = os.fstat(self._descriptor).st_size
        self.window = Window(self._descriptor, entry.path, 0, size)

    def __enter__(self) -> Window:
        return self.window

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)


class _Verification:
    def __init__(self, path: str, options: Options, progress: Progress | None) -> None:
        self.path, self.options = path, options
        began_s = time.monotonic()
        deadline_s = None if options.timeout_s is None else began_s + options.timeout_s
        self.session = Session(options.limits, deadline_s, options.rate, progress)
        self.tree = Tree()
        self.missing = False
        self.facts: dict[str, FileFacts] = {}
        self.folders: list[Folder] = []
        self.layouts: dict[str, None] = {}
        self.problems: list[Problem] = []
        self.expected: dict[str, tuple[FileDigest, str]] = {}
        self.swept: dict[tuple[int, int], Sweep] = {}

    def report(self) -> Report:
        try:
            self.tree = self._tree()
            self.session.total = sum(entry.status.st_size for entry in self.tree.files)
            for entry in sorted(self.tree.files, key=lambda entry: not _is_metadata(entry)):
                self._guard(entry, self._examine)
            self._check_folders()
            with ReadAhead(self.session) as reader:
                for entry in self.tree.files:
                    self._guard(entry, lambda entry: self._sweep(entry, reader))
        except DeadlineError:
            read, total = self.session.bytes_read, self.session.total
            reason = f"the time ended after {read} of {total} bytes"
            self.problems.append(Problem("", reason, Weight.UNKNOWN))
        return self._report()

    def _tree(self) -> Tree:
        tree = Tree()
        try:
            status = os.stat(self.path)
        except OSError as error:
            self.missing = isinstance(error, FileNotFoundError)
            tree.add("", file_problem(error), Weight.UNKNOWN)
            return tree
        if os.path.isdir(self.path):
            return walk(self.path, self.options.limits, self.options.owner)
        # A single file: its checks see no neighbours.
        name = os.path.basename(self.path)
        tree.folders[""] = 0.0
        tree.files.append(Entry(name, self.path, status))
        return tree

    def _guard(self, entry: Entry, act: Callable[[Entry], None]) -> None:
        """Call `act` on a file; its exceptions become the file's problems."""
        facts = self.facts.setdefault(
            entry.path, FileFacts(entry.path, entry.status.st_size, entry.status.st_mtime)
        )
        try:
            act(entry)
        except DamageError as error:
            facts.add(str(error))
        except UncheckableError as error:
            facts.add(str(error), Weight.UNKNOWN)
        except OSError as error:
            facts.add(file_problem(error), Weight.UNKNOWN)

    def _examine(self, entry: Entry) -> None:
        self.session.check_deadline()
        facts = self.facts[entry.path]
        with _Opened(entry, self.options.owner) as window:
            if _is_metadata(entry):
                dcp.read_metadata(window, facts, self.session)
                return
            metadata = self.facts.get(f"{facts.folder}/{dcp.METADATA}".lstrip("/"))
            if metadata is not None and (items := metadata.items.get(facts.name)):
                dcp.examine_items(window, items, facts, self.session)
            else:
                detect.examine(window, facts, self.session)

    def _check_folders(self) -> None:
        is_file = self.tree.folders == {"": 0.0}
        names: dict[str, dict[str, FileFacts]] = {path: {} for path in self.tree.folders}
        for facts in self.facts.values():
            names[facts.folder][facts.name] = facts
        inner: dict[str, set[str]] = {path: set() for path in self.tree.folders}
        for path in filter(None, self.tree.folders):
            parent, _, name = path.rpartition("/")
            inner[parent].add(name)
        root = os.path.abspath(self.path)
        for path in sorted(self.tree.folders):
            place = f"{root}/{path}".rstrip("/")
            folder = Folder(path, place, names[path], frozenset(inner[path]))
            for layout in FILE_LAYOUTS if is_file else LAYOUTS:
                if layout.recognizes(folder):
                    self.layouts[layout.NAME] = None
                    layout.check(folder)
            folder.check_steps()
            self.folders.append(folder)
            self.problems += folder.problems
            if trainer.recognizes(folder):
                for name, entry in trainer.expected(folder.files[trainer.MANIFEST]).items():
                    self.expected[f"{path}/{name}".lstrip("/")] = (entry, trainer.MANIFEST)
        for name, entry in self.options.expected.items():
            self.expected[name] = (entry, "the earlier manifest")
            if name not in self.facts:
                self.problems.append(Problem(name, "it is missing; the earlier manifest names it"))

    def _sweep(self, entry: Entry, reader: ReadAhead) -> None:
        facts = self.facts[entry.path]
        identity = (entry.status.st_dev, entry.status.st_ino)
        expectation = self.expected.get(entry.path)
        with _Opened(entry, self.options.owner) as window:
            with_digest = self.options.digests or expectation is not None
            result = self.swept.get(identity)  # of a link to the same file
            if result is None or (with_digest and result.sha256 is None):
                spans = _ordered(facts)
                result = sweep(
                    window,
                    spans,
                    reader,
                    with_digest=with_digest,
                    with_zeros=bool(facts.tensors),
                )
                self.swept[identity] = result
            status = os.fstat(window.descriptor)
            if (status.st_size, status.st_mtime_ns) != (
                entry.status.st_size,
                entry.status.st_mtime_ns,
            ):
                facts.problems = [p for p in facts.problems if p.weight != Weight.DAMAGE]
                raise UncheckableError("it changed while it was read")
            facts.sha256 = result.sha256
            self._judge_bytes(window, facts, result)
        if expectation is not None and not any(p.weight == Weight.DAMAGE for p in facts.problems):
            digest, source = expectation
            if result.size != digest.size:
                raise DamageError(f"it has {result.size} bytes instead of {digest.size}")
            if result.sha256 != digest.sha256:
                raise DamageError(f"it does not match its digest in {source}")

    def _judge_bytes(self, window: Window, facts: FileFacts, result: Sweep) -> None:
        for index, span in enumerate(result.bad):
            is_listed = index < self.options.limits.problems_per_file
            zeros = longest_zeros(window, span) if is_listed else None
            words = f": bytes {zeros[0]} to {zeros[1]} are zeros" if zeros else ""
            facts.add(f"its member {span.name} does not match its CRC{words}")
        if is_all_zero(facts, result):
            facts.add(f"all its {len(facts.tensors)} tensors are zeros")
            return
        for tensor, start, stop in lost_ranges(window, facts, result):
            facts.add(f"bytes {start} to {stop} are zeros inside the tensor {tensor.name}")

    def _report(self) -> Report:
        digests = {
            path: FileDigest(facts.size, facts.sha256)
            for path, facts in self.facts.items()
            if facts.sha256 is not None and self.options.digests
        }
        problems = [*self.tree.problems, *self.problems, *self._file_problems()]
        problems = self._settled([*dict.fromkeys(problems)])
        steps = [step for folder in self.folders for step in folder.steps.values()]
        steps += [step for facts in self.facts.values() if (step := _step(facts)) is not None]
        formats = {facts.format for facts in self.facts.values()} - {"binary", "text", "json"}
        known = [name for name in self.layouts if name not in PARTS]
        layout = ", ".join(known or sorted(formats)) or "unknown"
        if not known and not formats and not problems:
            problems.append(Problem("", "no checkpoint is recognized here", Weight.UNKNOWN))
        return Report(
            path=self.path,
            state=state_of(problems),
            layout=layout,
            step=max(steps, default=None),
            files=len(self.facts),
            size=sum(facts.size for facts in self.facts.values()),
            bytes_read=self.session.bytes_read,
            seconds=self.session.clock() - self.session.began_s,
            problems=tuple(problems),
            digests=digests,
            missing=self.missing,
            changed_s=max((facts.mtime_s for facts in self.facts.values()), default=0.0),
        )

    def _file_problems(self) -> Iterable[Problem]:
        most = self.options.limits.problems_per_file
        for facts in self.facts.values():
            yield from facts.problems[:most]
            if len(facts.problems) > most:
                more = facts.problems[most:]
                weight = next((p.weight for p in more if p.weight != Weight.NOTICE), Weight.NOTICE)
                yield Problem(facts.path, f"{len(more)} more problems", weight)

    def _settled(self, problems: list[Problem]) -> list[Problem]:
        """Return the problems; damage in a folder that changes now is unknown."""
        now_s, settle_s = time.time(), self.options.limits.settle_seconds
        result = []
        for path, changed_s in self.tree.temporary.items():
            fresh = now_s - changed_s < settle_s
            reason = "it is being written" if fresh else "a save that did not end left it: not read"
            weight = Weight.UNKNOWN if fresh else Weight.NOTICE
            result.append(Problem(path, reason, weight))
        waiting: dict[str, float] = {}
        changes = self._changes()
        for problem in problems:
            folder = problem.file.rpartition("/")[0]
            age_s = now_s - changes.get(folder, 0.0)
            if problem.weight == Weight.DAMAGE and age_s < settle_s:
                waiting[folder] = age_s
                problem = replace(problem, weight=Weight.UNKNOWN)
            result.append(problem)
        for folder, age_s in waiting.items():
            reason = f"it changed {max(age_s, 0.0):.0f} s ago and may still be being written: "
            reason += f"verify it again in {settle_s:.0f} s"
            result.append(Problem(folder, reason, Weight.UNKNOWN))
        return result

    def _changes(self) -> dict[str, float]:
        """Return the newest change in each folder and below it, in Unix seconds."""
        changes = dict(self.tree.folders)
        for facts in self.facts.values():
            folder = facts.path
            while folder:
                folder = folder.rpartition("/")[0]
                changes[folder] = max(changes.get(folder, 0.0), facts.mtime_s)
        return changes


def _is_metadata(entry: Entry) -> bool:
    return entry.path.rpartition("/")[2] == dcp.METADATA


def _ordered(facts: FileFacts) -> list[Span]:
    """Return the file's spans in order, without those that overlap an earlier one."""
    spans: list[Span] = []
    for span in sorted(facts.spans, key=lambda span: (span.start, span.stop)):
        if not spans or span.start >= spans[-1].stop:
            spans.append(span)
    return spans


def _step(facts: FileFacts) -> int | None:
    """Return the step that a file's content names."""
    is_state = facts.format in ("torch", "torch-legacy", "pickle")
    if not is_state or facts.name.startswith("random_states"):  # Accelerate's count of a batch
        return None
    return facts.number("global_step", "global_steps", "iteration", "step")
