"""MFU of the reference trainer in bf16, compiled: with hooks, agent and collector, and without."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.gpu.finding import Finding
from tests.gpu.place import Place
from tests.gpu.site import services
from tests.gpu.training import train

WANTED = 0.45
"""Share of the card's dense bf16 peak."""
JOB = "utilisation"
ONLY_HERE = ("mfu", "device-busy", "tensor-activity")
"""SLIs that are unknown on a machine without a GPU."""
SLIS = (*ONLY_HERE, "throughput", "goodput")


def check(place: Place) -> Iterator[Finding]:
    """Run without stepwatch and with it, and read the collector's SLIs."""
    words = ["--precision", "bf16", "--compile", "true", "--mesh", "dp_shard=1"]
    words += ["--microbatches", "1", "--device", place.kind, "--checkpoint-every", "1000000"]
    if place.is_gpu:
        words += ["--model", "1b", "--batch", "4", "--length", "4096", "--steps", "40"]
    else:
        words += ["--model", "debug", "--batch", "4", "--length", "32", "--steps", "4"]
    bare = train(words)
    with services("utilisation.db") as site:
        watched = train([*words, "--job", JOB], site.rings)
        document = site.whole_run(JOB)
    yield from _reports(watched, bare)
    yield from _slis(place, document, watched)


def _reports(watched: dict[str, Any], bare: dict[str, Any]) -> Iterator[Finding]:
    mfu, bare_mfu = watched["mfu"], bare["mfu"]
    step, bare_step = watched["step_seconds"]["p50"], bare["step_seconds"]["p50"]
    yield Finding(
        "reference trainer, 1b, bf16, compiled: MFU",
        "unknown" if mfu is None else f"{mfu:.1%} watched, {bare_mfu:.1%} bare",
        f"{WANTED:.0%}",
        None if mfu is None else mfu >= WANTED,
        {"mfu": mfu, "bare_mfu": bare_mfu, "tokens_per_second": watched["tokens_per_second"]},
    )
    yield Finding(
        "the same: step watched / bare, by median",
        f"{step / bare_step:.4f}; {bare_step * 1e3:.1f} ms bare",
        figures={"ratio": step / bare_step, "step_seconds": step, "bare_step_seconds": bare_step},
    )
    equal = watched["losses"] == bare["losses"]
    yield Finding(
        "the same: losses watched and bare",
        f"{'bitwise equal' if equal else 'different'}: the last {watched['losses'][-1]:.6f} and "
        f"{bare['losses'][-1]:.6f}",
        figures={"watched": watched["losses"], "bare": bare["losses"]},
    )


def _slis(place: Place, document: dict[str, Any], watched: dict[str, Any]) -> Iterator[Finding]:
    """Yield the SLIs that are unknown without a GPU, from the collector."""
    for name in SLIS:
        sli = document["slis"].get(name, {})
        value = sli.get("value")
        text = "unknown" if value is None else f"{value:.4g} {sli.get('unit', '')}"
        wanted = name in ONLY_HERE
        yield Finding(
            f"SLI {name}, as the collector has it",
            f"{text}; {sli.get('detail') or sli.get('unknown') or ''}",
            "known" if wanted else "",
            value is not None if wanted and place.is_gpu else None,
            {"value": value},
        )
