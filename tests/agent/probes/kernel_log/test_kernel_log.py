"""The kernel-log probe: each message it knows, storms, other messages, and the real log."""

from __future__ import annotations

import os
import random
import time
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.agent.facts.sighting import Sighting
from stepwatch.agent.probes import kernel_log
from stepwatch.agent.probes.kernel_log import KernelLogProbe
from stepwatch.agent.probes.kernel_log.messages import parse, patterns, sighting_of
from stepwatch.signals.records import NodeFact
from tests.waiting import until

PATTERNS: list[dict[str, Any]] = tomllib.loads(
    resources.files(kernel_log).joinpath("patterns.toml").read_text()
)["pattern"]
LOG = Path("/dev/kmsg")


def parsed_sighting(text: str, priority: int = 3) -> Sighting | None:
    message = parse(f"{priority},339,5140900,-;{text}".encode())
    assert message is not None
    return sighting_of(message)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern["example"][:40])
def test_each_message_is_the_fact_that_it_shows(pattern: dict[str, Any]) -> None:
    sighting = parsed_sighting(pattern["example"])
    assert sighting is not None and sighting.text == pattern["example"]
    assert sighting.fact.name == pattern["fact"].upper().replace("-", "_")
    assert [sighting.subject, sighting.pid, sighting.code] == pattern["found"]
    assert sighting.over == pattern.get("over", False) and sighting.at_ns == 5140900_000


def test_other_forms_of_a_message() -> None:
    for pattern in PATTERNS:
        for text, *expected in pattern.get("others", ()):
            sighting = parsed_sighting(text)
            assert (
                sighting is not None and [sighting.subject, sighting.pid, sighting.code] == expected
            ), text


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x000001c0, 0x00bd5c8a}",
        "usb 1-1: new high-speed USB device number 2",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05",
        "NVRM: Xid (PCI:0000:3b:00): , no number",
        "python3[4242]: segfault at 8 ip 00007f3a sp 00007ffd error 4 in _C.so[7f3a+5a]",
        "mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged",
        "EXT4-fs (vda): mounted filesystem r/w without journal. Quota mode: none.",
        "nvme nvme0: 8/0/0 default/read/poll queues",
        "clocksource: Switched to clocksource tsc",
        "oom-kill:constraint=CONSTRAINT_NONE,task=python3,pid=4242,uid=0",
        "mce: [Hardware Error]: CPU 3: Machine Check: Corrected error, Uncorrected count 0",
    ],
)
def test_other_messages_are_no_facts(text: str) -> None:
    assert parsed_sighting(text) is None


def test_what_a_process_wrote_is_said_to_be() -> None:
    sighting = parsed_sighting(
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", priority=12
    )
    assert sighting is not None and sighting.text.startswith("written by a process: NVRM")


@given(st.binary(max_size=400))
def test_no_message_raises(data: bytes) -> None:
    for line in (data, b"6,1,1,-;" + data, b"6,1,1,-;NVRM: Xid (PCI:" + data):
        message = parse(line)
        if message is not None:
            assert message.text.isprintable()
            sighting_of(message)


@given(st.sampled_from(PATTERNS), st.data())
def test_a_message_that_is_cut_or_longer_raises_nothing(
    pattern: dict[str, Any], data: st.DataObject
) -> None:
    text = pattern["example"]
    cut = data.draw(st.integers(0, len(text)))
    parsed_sighting(text[:cut])
    parsed_sighting(text[:cut] + data.draw(st.characters(codec="utf-8")) * 2000 + text[cut:])


def test_a_message_beyond_all_bounds_is_looked_at_in_no_time() -> None:
    """Each expression is linear: 20,000 awkward messages are a matter of seconds, not of hours."""
    awkward = [pattern.needle + " (" * 200 + "1:" * 200 for pattern in patterns()]
    for _ in range(20):
        for text in awkward:
            parsed_sighting(text)


def test_a_storm_is_one_fact_with_a_count(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    line = "6,{},{},-;NVRM: Xid (PCI:0000:3b:00): 45, pid={}, Ch 00000008\n SUBSYSTEM=pci\n"
    log.write_text("".join(line.format(second, second, second) for second in range(1, 673)))
    probe = KernelLogProbe(log)
    assert probe.supported() and len(probe.read()) == 0
    while not probe.facts():
        probe.read()
    total = sum(fact.happened for fact in probe.facts())
    (newest,) = probe.facts()
    while True:
        probe.read()
        if not probe.facts():
            break
        total += sum(fact.happened for fact in probe.facts())
    assert total == 672 and newest.code == 45
    probe.close()


def test_that_it_is_over_counts_nothing(tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_text(
        "3,1,10,-;nfs: server fs1 not responding, still trying\n6,2,20,-;nfs: server fs1 OK\n"
    )
    probe = KernelLogProbe(log)
    probe.read()
    assert probe.facts() == [
        Sighting(NodeFact.FILE_SERVER_SILENT, "fs1", "nfs: server fs1 OK", at_ns=20_000, over=True)
    ]
    probe.close()


def test_a_log_that_is_not_there_or_may_not_be_read(tmp_path: Path) -> None:
    probe = KernelLogProbe(tmp_path / "none")
    assert not probe.supported()
    with pytest.raises(OSError):
        probe.read()


@pytest.mark.skipif(not os.access(LOG, os.R_OK | os.W_OK), reason="/dev/kmsg may not be written")
def test_the_real_log() -> None:
    """Written and read for real: the kernel adds the number, the time and whose it is.

    Other agents on this machine read it, too: so it is of a fact that explains nothing.
    """
    probe = KernelLogProbe()
    begin_ns, bank = time.monotonic_ns(), f"mc{random.randrange(100, 1000)}"
    LOG.write_text(f"<3>EDAC {bank.upper()}: 1 CE memory scrubbing error on a test\n")

    def bank_facts() -> list[Sighting]:
        probe.read()
        return [fact for fact in probe.facts() if fact.subject == bank]

    (sighting,) = until("the message is read", bank_facts)
    assert sighting.fact is NodeFact.HARDWARE_ERRORS and sighting.happened == 1
    assert sighting.text.startswith(f"written by a process: EDAC {bank.upper()}: 1 CE memory")
    # The log's clock starts with the kernel, as the monotonic one; it is not the very same.
    assert abs(sighting.at_ns - begin_ns) < 60e9
    probe.close()
