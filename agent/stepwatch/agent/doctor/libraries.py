"""Version checks: do the driver and torch's CUDA and NCCL fit together?"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata, resources
from typing import Any

from .children import ChildError, answers
from .result import Outcome, Problem, Result, Surroundings
from .topology import read_devices

CHILD_SECONDS = 25.0
"""Importing torch from a slow file system takes longest."""
_NCCL_PACKAGES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")


def check(around: Surroundings) -> Iterator[Result]:
    """Check packages, then compare the driver with torch."""
    yield _packages()
    try:
        (versions,) = answers("libraries", (), CHILD_SECONDS)
    except (ChildError, ValueError) as error:
        text = f"versions of driver and torch are not known: {error}"
        remedy = "try `nvidia-smi` and `python -c 'import torch'` by hand"
        yield Result("libraries", Outcome.UNKNOWN, text, remedy)
        return
    yield from compared(versions, len(read_devices(around.sys)))


def compared(versions: Mapping[str, Any], on_bus: int = 0) -> Iterator[Result]:
    """Evaluate the versions from `children.libraries`; `on_bus` counts devices on the PCI bus."""
    yield _of_driver(versions, on_bus)
    if versions.get("torch") is None:
        text = "torch is not installed: its CUDA and NCCL are not known"
        remedy = "run the doctor in the job's own environment"
        yield Result("torch", Outcome.UNKNOWN, text, remedy, problem=Problem.USER)
        return
    yield _of_torch(versions)
    nccl = versions.get("torch_nccl")
    if nccl is not None:
        yield _of_nccl(nccl, installed_nccl())


def installed_nccl() -> str:
    """Return the NCCL package version next to torch; empty if there is none."""
    for name in _NCCL_PACKAGES:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


@cache
def _requirements() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("libraries.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def _packages() -> Result:
    packages = []
    for name in ("stepwatch", "torch", "nvidia-ml-py"):
        try:
            packages.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            packages.append(f"no {name}")
    return Result("versions", Outcome.PASS, ", ".join(packages), problem=Problem.USER)


def _of_driver(versions: Mapping[str, Any], on_bus: int) -> Result:
    mismatch = _requirements()["mismatch"]
    if versions.get("driver_error") == mismatch["code"]:
        text = "the driver in the kernel and its library are of different versions"
        remedy = "reboot, or reload the driver's modules: the driver was upgraded while it ran"
        return Result("driver", Outcome.FAIL, text, remedy, mismatch["source"])
    if versions.get("driver") is None and on_bus:
        why = versions.get("driver_says") or "nvidia-ml-py is not installed"
        text = f"{on_bus} NVIDIA device(s) on the PCI bus, and no driver that answers: {why}"
        return Result("driver", Outcome.FAIL, text, "load NVIDIA's driver, or install it")
    if versions.get("driver") is None:
        return Result("driver", Outcome.PASS, "this node has no NVIDIA driver")
    text = f"NVIDIA {versions['driver']}, CUDA up to {versions['driver_cuda']}"
    return Result("driver", Outcome.PASS, text)


def _of_torch(versions: Mapping[str, Any]) -> Result:
    torch, cuda, driver = (versions.get(name) for name in ("torch", "torch_cuda", "driver"))
    source = _requirements()["source"]
    if cuda is None:
        if not versions.get("driver_devices"):
            return Result("torch", Outcome.PASS, f"torch {torch} without CUDA; no device needs it")
        text = f"torch {torch} is built without CUDA, and this node has NVIDIA devices"
        return Result("torch", Outcome.WARN, text, "install a build of torch for CUDA", source,
                      Problem.USER)  # fmt: skip
    if driver is None:
        text = f"torch {torch} for CUDA {cuda}: no driver to compare it with"
        return Result("torch", Outcome.UNKNOWN, text, "look at why there is none", source)
    least = _requirements()["least_driver"].get(cuda.partition(".")[0])
    if least is None:
        text = f"torch {torch} for CUDA {cuda}: the oldest driver for it is not known here"
        return Result("torch", Outcome.UNKNOWN, text, "compare by hand", source)
    text = f"torch {torch} for CUDA {cuda} needs driver {least} or later: this is {driver}"
    if _numbers(driver) < _numbers(least):
        remedy = "upgrade the driver, install NVIDIA's cuda-compat, or a build of torch for it"
        return Result("torch", Outcome.FAIL, text, remedy, source)
    if versions.get("devices", 0) < (count := versions.get("driver_devices", 0)):
        text = f"torch uses {versions['devices']} of {count} devices of the driver"
        remedy = "look at CUDA_VISIBLE_DEVICES, and at /dev/nvidia* in the container"
        return Result("torch", Outcome.WARN, text, remedy, source, Problem.USER)
    return Result("torch", Outcome.PASS, text, "", source)


def _of_nccl(loaded: str, installed: str) -> Result:
    """Compare loaded and installed NCCL: LD_LIBRARY_PATH or LD_PRELOAD may load another library."""
    source = "torch.cuda.nccl.version() beside the package that torch requires"
    text = f"NCCL {loaded}"
    if installed and _numbers(installed)[:3] != _numbers(loaded)[:3]:
        text = f"NCCL {loaded} is loaded, {installed} is installed with torch"
        remedy = "look at LD_LIBRARY_PATH and LD_PRELOAD; all nodes must load the same"
        return Result("torch-nccl", Outcome.WARN, text, remedy, source, Problem.USER)
    return Result("torch-nccl", Outcome.PASS, text, "", source)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits[:9]) for digits in re.findall(r"\d+", version)[:8])
