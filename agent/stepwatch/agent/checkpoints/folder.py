"""The files and folders below a path, and one folder as the layouts see it."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from stepwatch.signals.phrases import file_problem

from .facts import FileFacts
from .limits import Limits
from .reading import FOREIGN
from .result import Problem, Weight

QUARANTINE = "quarantine"
"""The reference trainer's folder for invalid checkpoints."""
_TEMPORARY = re.compile(
    r"^\.(saving|leaving|tmp)|^tmp-|\.(tmp|temp)([.-].*)?$|\.(part|partial|incomplete|inprogress)$|~$"
)
"""Names under which trainers and copy tools write before they rename."""
_WRITTEN_FIRST = re.compile(
    r"^\.?tmp[-_.]|\.(tmp|temp|part|partial|incomplete|inprogress)$", re.IGNORECASE
)
"""The parts of such names that a rename takes away."""
_KINDS = {stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket", stat.S_IFBLK: "device"}
_KINDS |= {stat.S_IFCHR: "device"}


def is_temporary(name: str) -> bool:
    """Return whether a file or folder with this name is one of an unfinished save."""
    return _TEMPORARY.search(name) is not None


def renamed(path: str) -> str:
    """Return the path, or its final name if only that exists: writers rename when they are done."""
    if os.path.lexists(path):
        return path
    final = "/".join(_WRITTEN_FIRST.sub("", name) or name for name in path.split("/"))
    return final if os.path.lexists(final) else path


@dataclass(frozen=True)
class Entry:
    """One regular file: relative path, its path for the system, and its status."""

    path: str
    place: str
    status: os.stat_result


@dataclass
class Tree:
    """Everything below a path.

    `folders` maps each folder's relative path to its last change, `temporary` each name of an
    unfinished save to its own; both in Unix seconds.
    """

    files: list[Entry] = field(default_factory=list)
    folders: dict[str, float] = field(default_factory=dict)
    temporary: dict[str, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, path: str, reason: str, weight: Weight) -> None:
        """Add a problem of a file or folder."""
        self.problems.append(Problem(path, reason, weight))


def walk(root: str, limits: Limits, owner: int | None = None) -> Tree:
    """List regular files and folders; links are followed once, and never in a circle.

    With `owner`, a user id, only that user's folders are listed.
    """
    tree, visited = Tree(), set[tuple[int, int]]()
    waiting: list[tuple[str, str, int]] = [("", root, 0)]
    linked: list[tuple[str, str, int]] = []
    count = 0
    while waiting or linked:
        path, place, depth = waiting.pop() if waiting else linked.pop()
        try:
            status = os.stat(place)
            identity = (status.st_dev, status.st_ino)
            if identity in visited:
                continue
            visited.add(identity)
            if owner not in (None, status.st_uid):
                tree.add(path, FOREIGN, Weight.UNKNOWN)
                continue
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError as error:
            tree.add(path, file_problem(error), Weight.UNKNOWN)
            continue
        tree.folders[path] = status.st_mtime
        for entry in entries:
            count += 1
            child = f"{path}/{entry.name}" if path else entry.name
            if count > limits.entries or depth > limits.depth:
                tree.add(child, "there are too many files or folders to check", Weight.UNKNOWN)
                return tree
            if _add_entry(tree, entry, child):
                queue = linked if entry.is_symlink() else waiting
                queue.append((child, entry.path, depth + 1))
    tree.files.sort(key=lambda entry: entry.path)
    return tree


def _add_entry(tree: Tree, entry: os.DirEntry[str], path: str) -> bool:
    """Add a file or a problem to the tree; return true for a folder to list."""
    try:
        status = entry.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            tree.add(path, "it is a link in a circle", Weight.DAMAGE)
        elif error.errno == errno.ENOENT and entry.is_symlink():
            tree.add(path, "it is a link, and its target is missing", Weight.DAMAGE)
        elif error.errno != errno.ENOENT:
            tree.add(path, file_problem(error), Weight.UNKNOWN)
        return False
    if is_temporary(entry.name):
        tree.temporary[path] = status.st_mtime
    elif stat.S_ISDIR(status.st_mode):
        if entry.name != QUARANTINE:
            return True
        tree.add(path, "it holds checkpoints that a trainer found invalid: not read", Weight.NOTICE)
    elif stat.S_ISREG(status.st_mode):
        tree.files.append(Entry(path, entry.path, status))
    else:
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special file")
        tree.add(path, f"it is a {kind}: not read", Weight.NOTICE)
    return False


@dataclass
class Folder:
    """One folder for a layout's check: its own files by name, and the names of its folders.

    `path` is below the checkpoint, `place` is absolute. `steps` maps each source of a step to the
    step that it names.
    """

    path: str
    place: str
    files: Mapping[str, FileFacts]
    folders: frozenset[str]
    problems: list[Problem] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.place.rpartition("/")[2]

    def add(self, name: str, reason: str, weight: Weight = Weight.DAMAGE) -> None:
        """Add a problem of a file in this folder, present or missing."""
        path = f"{self.path}/{name}".strip("/")
        self.problems.append(Problem(path, reason, weight))

    def missing(self, name: str, reason: str = "") -> None:
        """Add the problem that a file is missing."""
        self.add(name, f"it is missing{reason}")

    def check_steps(self) -> None:
        """Add a problem if the sources name different steps."""
        if len({*self.steps.values()}) > 1:
            ordered = sorted(self.steps.items(), key=lambda item: item[1])
            (low, first), (high, last) = ordered[0], ordered[-1]
            self.add(high, f"mixed steps: it is of step {last}, {low} of step {first}")
