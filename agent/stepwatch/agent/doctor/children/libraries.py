"""A child: driver versions and torch's library versions, as one JSON line.

`python -m stepwatch.agent.doctor.children.libraries`; an unknown value is null.
"""

from __future__ import annotations

import json
from typing import Any


def of_torch() -> dict[str, Any]:
    """Return the versions for torch, its CUDA and its NCCL; `devices` counts usable devices."""
    try:
        import torch
    except ImportError:
        return {"torch": None}
    versions = {"torch": torch.__version__, "torch_cuda": torch.version.cuda, "torch_nccl": None}
    if torch.version.cuda is not None:
        nccl = torch.cuda.nccl.version()  # type: ignore[no-untyped-call]
        versions["torch_nccl"] = ".".join(map(str, nccl))
    return {**versions, "devices": torch.cuda.device_count()}


def of_driver() -> dict[str, Any]:
    """Return the driver version and its newest CUDA; `driver_error` is NVML's code if it fails."""
    try:
        import pynvml
    except ImportError:
        return {"driver": None, "driver_error": None}
    try:
        pynvml.nvmlInit()
        cuda = int(pynvml.nvmlSystemGetCudaDriverVersion_v2())
        return {
            "driver": _text(pynvml.nvmlSystemGetDriverVersion()),
            "driver_cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
            "driver_devices": int(pynvml.nvmlDeviceGetCount()),
            "driver_error": None,
        }
    except pynvml.NVMLError as error:
        return {"driver": None, "driver_error": int(error.value), "driver_says": str(error)}


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


if __name__ == "__main__":
    print(json.dumps({**of_driver(), **of_torch()}))
