"""Training stalls from checkpoints on a GPU: asynchronous and synchronous ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from stepwatch.signals import places
from tests.gpu.finding import Finding
from tests.gpu.place import Place
from tests.gpu.training import train

DUE = 3
"""Due checkpoints; one is skipped while the previous one is still being written."""


def check(place: Place) -> Iterator[Finding]:
    """The same run in both modes."""
    words = ["--precision", "bf16", "--mesh", "dp_shard=1", "--microbatches", "1"]
    if place.is_gpu:
        words += ["--model", "160m", "--batch", "16", "--length", "1024", "--steps", "120"]
        words += ["--checkpoint-every", "40"]
    else:
        words += ["--model", "debug", "--batch", "4", "--length", "32", "--steps", "9"]
        words += ["--checkpoint-every", "3"]
    words += ["--device", place.kind]
    rings = Path(os.environ[places.ENV_RING_DIR])
    shares, losses = {}, []
    for mode in ("async", "sync"):
        report = train([*words, "--job", mode, "--checkpoint-mode", mode], rings)
        saves, step = report["checkpoints"], report["step_seconds"]["p50"]
        stalls = [save["stall_seconds"] for save in saves]
        durable = sum(save["durable_seconds"] for save in saves) / len(saves)
        verified = sum(bool(save["verified"]) for save in saves)
        shares[mode] = sum(stalls) / len(stalls)
        losses.append(report["losses"])
        yield Finding(
            f"checkpoint, {mode}: stalls",
            f"{', '.join(f'{stall * 1e3:.0f}' for stall in stalls)} ms; durable after "
            f"{durable:.2f} s, {verified} of {len(saves)} verified, "
            f"{saves[0]['bytes'] / 1e9:.2f} GB; step p50 {step * 1e3:.0f} ms",
            f"{DUE} verified, or fewer where one was still being written",
            verified == len(saves) > 1 and (mode == "async" or len(saves) == DUE),
            {"stall_seconds": stalls, "durable_seconds": durable, "step_seconds": step},
        )
    ratio = shares["async"] / shares["sync"]
    yield Finding(
        "checkpoint stall, asynchronous / synchronous", f"{ratio:.3f}", figures={"ratio": ratio}
    )
    equal = losses[0] == losses[1]
    yield Finding("losses of these two runs", "bitwise equal" if equal else "different")
