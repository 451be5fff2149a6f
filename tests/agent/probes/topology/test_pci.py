"""What lies between two functions of the PCI bus, and which card is nearest to a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepwatch.agent.probes.topology.cards import nearest, read_cards
from stepwatch.agent.probes.topology.pci import Function, function_at, nearness, read_function
from stepwatch.signals.records import Nearness

from .made import DEVICES, SWITCHES, Machine


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "sys")


def device(machine: Machine, number: int) -> Function:
    pci_function = function_at(machine.sys, DEVICES[number])
    assert pci_function is not None
    return pci_function


def test_where_a_function_hangs(machine: Machine) -> None:
    pci_function = device(machine, 1)
    assert pci_function.address == "0000:3c:00.0" and (pci_function.node, pci_function.cpus) == (
        1,
        "8-15",
    )
    assert pci_function.path == (*SWITCHES[1].split("/"), "0000:32:00.0", "0000:3c:00.0")
    assert function_at(machine.sys, "0000:99:00") is None, "there is none"
    assert function_at(machine.sys, "../../etc") is None
    assert read_function(machine.sys / "class/infiniband/mlx5_1/device") != pci_function
    assert read_function(machine.sys / "class/net") is None, "on no PCI bus"


def test_folders_below_a_function_are_left_out(machine: Machine) -> None:
    place = machine.function("pci0000:00/0000:00:03.0", -1)
    (place / "virtio2").mkdir()
    pci_function = read_function(place / "virtio2")
    assert pci_function == Function("0000:00:03.0", ("pci0000:00", "0000:00:03.0"), -1, "0-15")


SWITCH = SWITCHES[0]
WAYS = {
    "the same switch": (f"{SWITCH}/0000:32:07.0/0000:70:00.0", 0, Nearness.PIX),
    "a switch below it": (
        f"{SWITCH}/0000:32:07.0/0000:70:00.0/0000:71:00.0/0000:72:00.0",
        0,
        Nearness.PXB,
    ),
    "another root port": ("pci0000:30/0000:30:02.0/0000:70:00.0", 0, Nearness.PHB),
    "another host bridge": ("pci0000:40/0000:40:01.0/0000:70:00.0", 0, Nearness.NODE),
    "another socket": ("pci0000:90/0000:90:01.0/0000:70:00.0", 1, Nearness.SYS),
    "a place that is not said": ("pci0000:90/0000:90:01.0/0000:70:00.0", -1, Nearness.UNKNOWN),
}


@pytest.mark.parametrize("name", WAYS)
def test_what_lies_between(name: str, machine: Machine) -> None:
    path, node, way = WAYS[name]
    other_function = read_function(machine.function(path, node))
    assert other_function is not None
    own_function = device(machine, 0)
    assert nearness(own_function, other_function) is nearness(other_function, own_function) is way


def test_the_nearest_card(machine: Machine) -> None:
    cards = read_cards(machine.sys)
    assert [(card.port, card.interface) for card in cards] == [("mlx5_0", "ib0"), ("mlx5_1", "ib1")]
    for number in (0, 1):
        way, (card,) = nearest(device(machine, number), cards)
        assert (way, card.name) == (Nearness.PIX, f"mlx5_{number}")


def test_two_cards_that_are_as_near(machine: Machine) -> None:
    machine.named(
        "infiniband", "mlx5_2", machine.function(f"{SWITCH}/0000:32:02.0/0000:60:00.0", 0)
    )
    way, near = nearest(device(machine, 0), read_cards(machine.sys))
    assert way is Nearness.PIX and [card.name for card in near] == ["mlx5_0", "mlx5_2"]


def test_where_all_cards_are_as_near_none_is_known(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "sys")
    for number in (0, 1):
        place = machine.function(f"pci0000:00/0000:00:0{number + 4}.0", 0)
        machine.named("infiniband", f"mlx5_{number}", place)
        machine.named("net", f"ib{number}", place)
    virtual = read_function(machine.function("pci0000:00/0000:00:08.0", 0))
    assert virtual is not None
    assert nearest(virtual, read_cards(machine.sys)) == (Nearness.PHB, [])
    assert nearest(virtual, []) == (Nearness.UNKNOWN, [])


def test_ethernet_counts_where_there_is_nothing_faster(machine: Machine) -> None:
    place = machine.function("pci0000:30/0000:30:03.0/0000:61:00.0", 0)
    machine.named("net", "ens5", place)
    (machine.sys / "class/net/lo").mkdir()
    assert "ens5" not in {card.interface for card in read_cards(machine.sys)}
    for number in (0, 1):
        (machine.sys / f"class/infiniband/mlx5_{number}/device").unlink()
        (machine.sys / f"class/net/ib{number}/device").unlink()
    (only,) = read_cards(machine.sys)
    assert only.name == "ens5"
    assert nearest(device(machine, 0), [only]) == (Nearness.PHB, [only]), "every device uses it"


def test_links_that_go_round_are_no_function(machine: Machine) -> None:
    for name, target in (("a", "b"), ("b", "a")):
        (machine.sys / "class/infiniband" / name).mkdir()
        (machine.sys / "class/infiniband" / name / "device").symlink_to(
            machine.sys / "class/infiniband" / target / "device"
        )
    assert len(read_cards(machine.sys)) == 2
