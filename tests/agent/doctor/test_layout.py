"""The table of devices and cards, and a device that is farther from its card than the others."""

from __future__ import annotations

from pathlib import Path

from stepwatch.agent.doctor import Outcome, topology
from stepwatch.agent.doctor.result import Surroundings
from tests.agent.probes.topology.made import SWITCHES, Machine


def results_of(machine: Machine) -> list[tuple[Outcome, str]]:
    results = topology.check(Surroundings({}, sys=machine.sys))
    return [(result.outcome, result.text) for result in results]


def test_a_line_for_each_device(tmp_path: Path) -> None:
    assert results_of(Machine(tmp_path)) == [
        (Outcome.PASS, "2 NUMA node(s), 16 CPUs, 2 device(s), cards: mlx5_0, mlx5_1"),
        (Outcome.PASS, "0000:3b:00.0: NUMA node 0, CPUs 0-7; mlx5_0 PIX, mlx5_1 SYS"),
        (Outcome.PASS, "0000:3c:00.0: NUMA node 1, CPUs 8-15; mlx5_0 SYS, mlx5_1 PIX"),
    ]


def test_a_device_without_a_card_near_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    place = machine.function(f"{SWITCHES[0]}/0000:32:03.0/0000:60:00.0", 0)
    machine.named("infiniband", "mlx5_1", place)
    machine.named("net", "ib1", place)
    _, first, second = results_of(machine)
    assert first == (
        Outcome.PASS,
        "0000:3b:00.0: NUMA node 0, CPUs 0-7; mlx5_0 PIX, mlx5_1 PIX",
    )
    assert second == (
        Outcome.WARN,
        "0000:3c:00.0: NUMA node 1, CPUs 8-15; mlx5_0 SYS, mlx5_1 SYS",
    )


def test_what_the_firmware_does_not_say_is_unknown(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "a")
    (machine.sys / "bus/pci/devices/0000:3c:00.0/numa_node").write_text("-1\n")
    assert results_of(machine)[2][0] is Outcome.UNKNOWN
    (result,) = topology.check(Surroundings({}, sys=tmp_path / "none"))
    assert result.outcome is Outcome.UNKNOWN and result.remedy


def test_this_machine_has_one_line_at_least() -> None:
    results = list(topology.check(Surroundings({})))
    assert results and all(result.source for result in results)
