"""Runs when a Python below `stepwatch run` starts: waits for torch, then starts the hooks.

It imports only modules that the interpreter has loaded, is a no-op in a rank's children, and hands
over to the user's own `sitecustomize`. Children of multiprocessing may be ranks if their parent
does not train.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing typing would cost every Python that never imports torch
if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

OWNER = "STEPWATCH_RUN_OWNER"
"""Process that may record in this environment, with `+` once it does; its children inherit the
variable and do not record.
"""
TOP = "STEPWATCH_RUN_TOP"
"""Process that `stepwatch run` became, and its start in Unix ns: `1234:1700000000000000000`."""


class TorchFinder:
    """Leaves the search for torch to other finders and adds a call to the end of its import."""

    def __init__(self) -> None:
        self._asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return torch's spec with a loader that calls us back; None for any other module."""
        if name != "torch" or self._asking:
            return None
        from importlib.util import find_spec

        keep_stderr()
        self._asking = True
        try:
            spec = find_spec(name)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Loader) -> None:
        followed: Any = loader
        load = followed.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            followed.exec_module = load
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                start_hooks()

        followed.exec_module = exec_module


def start_hooks() -> None:
    """Start the hooks from the stepwatch that this Python has."""
    try:
        from stepwatch.hooks.auto import begin_unasked
    except ImportError as error:
        line = f"stepwatch: not watching: {error}; install stepwatch for {sys.executable}"
        try:  # noqa: SIM105 - contextlib may not be loaded here
            print(line, file=sys.stderr)
        except OSError:  # nothing reads stderr: `import torch`, which led here, continues
            pass
        return
    begin_unasked(OWNER)


def is_wanted() -> bool:
    """Return whether this process may train."""
    if os.environ.get("STEPWATCH_DISABLE", "0") not in ("", "0"):
        return False
    owner = os.environ.get(OWNER, "")
    if "RANK" in os.environ and not owner:
        owner = os.environ[OWNER] = str(os.getpid())
    spawned = "--multiprocessing-fork" in getattr(sys, "orig_argv", ())
    return owner in ("", str(os.getpid())) or (spawned and not owner.endswith("+"))


def keep_stderr() -> None:
    """Keep the last stderr lines of a rank, and of the process that `stepwatch run` became.

    That process may train itself. This call forks, so it comes before torch starts threads.
    """
    if "RANK" not in os.environ and not top_began_ns():
        return
    try:
        from stepwatch.signals.stderr.keeping import keep_stderr
    except ImportError:  # reported when torch is imported
        return
    keep_stderr()


def top_began_ns() -> str:
    """Return when `stepwatch run` became this process, in Unix ns; empty in any other process."""
    pid, _, began_ns = os.environ.get(TOP, "").partition(":")
    return began_ns if pid == str(os.getpid()) else ""


def follow_end() -> None:
    """Make the process that `stepwatch run` became report at its end if no step was recorded."""
    began_ns = top_began_ns()
    if began_ns:
        import atexit

        atexit.register(report_no_step, int(began_ns))


def report_no_step(began_ns: int) -> None:
    """Look for steps in this run and print a line if there are none."""
    try:
        from stepwatch.hooks.auto.step_report import report
    except ImportError:  # the import of torch printed a line about it, if torch was imported
        return
    report(began_ns)


def run_next() -> None:
    """Run the `sitecustomize` that ours hides, if there is one."""
    site_directory = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [
        entry for entry in sys.path if os.path.abspath(entry or os.curdir) != site_directory
    ]
    del sys.modules["sitecustomize"]
    try:
        import sitecustomize  # type: ignore[import-not-found] # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
        if me is not None:
            sys.modules["sitecustomize"] = me


me = sys.modules.get(__name__)
if __name__ == "sitecustomize":
    if is_wanted():
        sys.meta_path.insert(0, TorchFinder())
        follow_end()
    run_next()
