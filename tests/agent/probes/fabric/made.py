"""A tree of `/sys` with network cards, for a machine that has none."""

from __future__ import annotations

from pathlib import Path


class Cards:
    """Ports of one kind, two unless `count` says so, of InfiniBand
    card, and an Ethernet card, as `/sys` shows them."""

    def __init__(self, sys: Path, count: int = 2) -> None:
        self.sys = sys
        (sys / "class/net/lo").mkdir(parents=True)
        for card in (f"mlx5_{number}" for number in range(count)):
            port = sys / "class/infiniband" / card / "ports/1"
            for folder in ("counters", "hw_counters"):
                (port / folder).mkdir(parents=True)
            (port.parent.parent / "hca_type").write_text("MT4129\n")
            (port / "link_layer").write_text("InfiniBand\n")
            self.set(card, state="4: ACTIVE", rate="400 Gb/sec (4X NDR)")
            self.count(card, link_downed=3, symbol_error=7)
            self.count(card, hw=True, unresponsive_remote_events=0)
        driver = sys / "bus/pci/drivers/ena"
        driver.mkdir(parents=True)
        (sys / "class/net/ens5/device").mkdir(parents=True)
        (sys / "class/net/ens5/device/driver").symlink_to(driver)
        self.link(operstate="up", speed=100_000, carrier_down_count=1)

    def set(self, card: str, **values: str) -> None:
        """Write files of a card's port."""
        for name, value in values.items():
            (self.sys / "class/infiniband" / card / "ports/1" / name).write_text(f"{value}\n")

    def count(self, card: str, *, hw: bool = False, **values: int) -> None:
        """Write counters of a card's port."""
        folder = "hw_counters" if hw else "counters"
        self.set(card, **{f"{folder}/{name}": str(value) for name, value in values.items()})

    def link(self, **values: object) -> None:
        """Write files of the Ethernet card."""
        for name, value in values.items():
            (self.sys / "class/net/ens5" / name).write_text(f"{value}\n")
