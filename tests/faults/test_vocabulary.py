"""A fault has one word, whoever makes it: injector, simulation, scenario, device or drill."""

from __future__ import annotations

from collections.abc import Iterable

from stepwatch.cli.simulate.faults import FAULTS as SIMULATED
from stepwatch.faults import FAULTS as INJECTED
from tests.drill.outside import OUTSIDE
from tests.verdicts.device.faults import DEVICE_FAULTS
from tests.verdicts.scenario.plan import FaultKind

WORDS = {
    "slow-compute": "a rank computes more slowly",
    "slow-clock": "all work on a rank's device takes longer",
    "slow-kernel": "one kernel of a rank takes longer",
    "hot-device": "a rank's device is throttled by its temperature",
    "slow-optimizer": "a rank's optimizer takes longer",
    "slow-node": "all ranks on a node compute more slowly",
    "slow-data": "a rank's loader takes longer",
    "slow-data-everywhere": "every rank's loader takes longer",
    "slow-link": "transfers of a node or of a group take longer",
    "slow-stage-link": "transfers between two pipeline stages take longer",
    "slow-collective": "one collective of a rank moves its data more slowly",
    "stage-imbalance": "all ranks of a pipeline stage compute more slowly",
    "skewed-shard": "a rank's samples are longer than its peers'",
    "checkpoint-stall": "a rank's saves take longer",
    "memory-growth": "a rank allocates more host memory in every step",
    "stopped-now-and-then": "a rank's process is stopped and continued again and again",
    "stop": "a rank's process is stopped",
    "stop-all": "every rank's process is stopped",
    "hang": "a rank sleeps before its collectives",
    "hang-busy": "a rank computes without end before its collectives",
    "hang-inside": "a collective that every rank entered never ends",
    "gil-lock": "a rank sleeps and keeps the interpreter lock",
    "stuck-kernel": "a kernel on a rank's device never ends",
    "stuck-collective": "a collective on a rank's device never ends, while all hosts proceed",
    "wrong-order": "a rank issues two collectives of one group in swapped order",
    "wrong-shape": "a rank passes a tensor of another shape to a collective",
    "crossed-groups": "ranks enter two groups in different order, and wait in a circle",
    "kill": "a rank's process is killed",
    "exit-early": "a rank's process leaves with code 0",
    "exception": "a rank's process ends with an exception",
    "node-lost": "a node and all its ranks are gone",
    "agent-gone": "an agent is gone, while its ranks continue",
    "link-cut": "a node's link carries nothing",
    "nan-gradients": "a rank's gradient holds a NaN",
    "flip-bit": "a bit in a rank's parameter flips",
    "xid": "the driver reports an XID error of a rank's device",
    "xid-kills": "an XID error ends a rank's process",
    "driver-hangs": "the driver's calls do not return",
    "full-disk": "the disk for checkpoints is full",
}
"""Every fault's word and its meaning."""
MAKERS: dict[str, Iterable[str]] = {
    "injector": INJECTED,
    "simulation": SIMULATED,
    "scenario": FaultKind,
    "device": DEVICE_FAULTS,
    "drill": OUTSIDE,
}


def test_each_fault_has_one_word_and_one_meaning() -> None:
    used = {str(word) for faults in MAKERS.values() for word in faults}
    assert used == set(WORDS), "add the word and its meaning, or use the word that is there"
    assert len(set(WORDS.values())) == len(WORDS)
