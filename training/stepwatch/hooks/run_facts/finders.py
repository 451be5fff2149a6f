"""A run's facts that need no description: versions, library settings, the commit."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stepwatch.hooks.core import CORE
from stepwatch.signals import places
from stepwatch.signals.version import version

_SETTINGS = re.compile(
    "(NCCL|TORCH_NCCL|PYTORCH|GLOO|OMP|MKL)_[A-Z0-9_]+|CUDA_DEVICE_MAX_CONNECTIONS|CUDA_LAUNCH_BLOCKING"
    "|CUBLAS_WORKSPACE_CONFIG|TORCHINDUCTOR_[A-Z0-9_]+"
)
_PER_LAUNCH = ("NCCL_COMM_ID",)
_LIBRARIES = (
    "torch",
    "numpy",
    "transformers",
    "accelerate",
    "lightning",
    "deepspeed",
    "torchtitan",
)
_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""
_MOST_PARENTS = 32
_MOST_BYTES = 1 << 20
_MOST_PACKED_BYTES = 64 << 20


def environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Return versions of loaded modules, the device, and settings in environment variables.

    Nothing is imported for it.
    """
    yield "python", platform.python_version()
    yield "stepwatch", version()
    yield "stepwatch_core", CORE
    for name in _LIBRARIES:
        release = getattr(sys.modules.get(name), "__version__", None)
        if release is not None:
            yield name, str(release)
    yield from _device()
    for name in sorted(environ):
        if _SETTINGS.fullmatch(name) and name not in _PER_LAUNCH:
            yield name, environ[name]


def _device() -> Iterator[tuple[str, Any]]:
    """Return the rank's CUDA device, if torch has begun to use one."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    # The order matters: a CPU trainer on a node with GPUs must not touch the CUDA runtime.
    if cuda is None or not cuda.is_initialized() or not cuda.is_available():
        return
    torch = sys.modules["torch"]
    yield "device", cuda.get_device_name()
    yield "cuda", str(torch.version.cuda)
    nccl = getattr(cuda, "nccl", None)
    if nccl is not None:
        yield "nccl", ".".join(map(str, nccl.version()))


def code(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return the name of the script, or of the module with `python -m`, and its commit.

    The commit comes from STEPWATCH_COMMIT, or from the repository around the script or the working
    directory. Local changes are not checked: that would read all files.
    """
    main = sys.modules.get("__main__")
    script = Path(getattr(main, "__file__", None) or next(iter(sys.argv), "") or ".")
    module = getattr(getattr(main, "__spec__", None), "name", None)
    yield "script", module.removesuffix(".__main__") if module else script.name
    commit = environ.get(places.ENV_COMMIT) or commit_around(script)
    if commit:
        yield "commit", commit


def commit_around(script: Path) -> str:
    """Return the commit of the repository around a script, or else the working directory.

    Empty if there is none, or they no longer exist.
    """
    try:
        return commit_of(script.resolve().parent) or commit_of(Path.cwd())
    except OSError:
        return ""


def owner(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return the run's account: STEPWATCH_PROJECT, STEPWATCH_TEAM and STEPWATCH_COST_CENTRE.

    Without them, a Slurm job's account is its cost centre, and a Kubernetes pod's namespace its
    project.
    """
    account = environ.get("SLURM_JOB_ACCOUNT", "")
    for name, text in (
        ("project", environ.get(places.ENV_PROJECT) or _namespace()),
        ("team", environ.get(places.ENV_TEAM, "")),
        ("cost_centre", environ.get(places.ENV_COST_CENTRE) or account),
    ):
        if text.strip():
            yield name, text.strip()


def _namespace() -> str:
    """Return the namespace of this process's pod; empty outside Kubernetes."""
    try:
        return _read(_NAMESPACE)
    except OSError:
        return ""


def commit_of(folder: Path) -> str:
    """Return the checked-out commit in the Git repository around `folder`; empty without one.

    Also empty if it cannot be read.
    """
    for parent in [folder, *folder.parents][:_MOST_PARENTS]:
        place = parent / ".git"
        try:
            if place.is_file():  # a worktree, or a submodule
                place = parent / _read(place).removeprefix("gitdir:").strip()
            elif not place.is_dir():
                continue
            return _commit(place)
        except OSError:
            return ""
    return ""


def _commit(place: Path) -> str:
    head = _read(place / "HEAD").strip()
    if not head.startswith("ref:"):
        return head if re.fullmatch("[0-9a-f]{40,64}", head) else ""
    name = head.removeprefix("ref:").strip()
    shared = place / "commondir"
    common = place / _read(shared).strip() if shared.is_file() else place
    for directory in (place, common):
        if (directory / name).is_file():
            return _read(directory / name).strip()
    return _packed(common / "packed-refs", name)


def _packed(refs: Path, name: str) -> str:
    """Return a packed reference's commit; in large repositories the file has many megabytes."""
    ending, read = f" {name}\n".encode(), 0
    with refs.open("rb") as lines:
        for line in lines:
            read += len(line)
            if line.endswith(ending):
                return line[: -len(ending)].decode("ascii", "replace")
            if read > _MOST_PACKED_BYTES:
                break
    return ""


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace")


FINDERS = {"code": code, "environment": environment, "owner": owner}
"""The function that finds each part's facts, from the environment variables."""
