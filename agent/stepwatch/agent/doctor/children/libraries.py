"""A child: versions of the driver and of what torch brings, as one line of JSON.

`python -m stepwatch.agent.doctor.children.libraries`; a value that is not known is null.
"""

from __future__ import annotations

import json
from typing import Any


def of_torch() -> dict[str, Any]:
    """Versions of torch, of its CUDA and its NCCL; `devices` are those that it can use."""
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
    """Version of the driver and of the newest CUDA that it has; `driver_error` is NVML's code where
    it does not answer."""
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
