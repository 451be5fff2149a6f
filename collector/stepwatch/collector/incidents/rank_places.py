"""The places of ranks: their nodes, and the network card each uses, as far as known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stepwatch.collector.state.trackers.nodes.near_cards import NearCard
from stepwatch.collector.state.trackers.nodes.node_faults import NodeFault
from stepwatch.signals.names import Cause
from stepwatch.signals.node_facts.catalogue import CATALOGUE


@dataclass(frozen=True)
class RankPlaces:
    """Each rank's node, and the cards nearest to its device, for ranks where they are known.

    NCCL prefers the nearest ones (src/graph/topo.cc, ncclTopoGetLocalNet).
    """

    node_of: Mapping[int, str]
    cards_of: Mapping[int, Sequence[NearCard]] = field(default_factory=dict)

    def node(self, rank: int) -> str:
        """Return a rank's node; empty if unknown."""
        return self.node_of.get(rank, "")

    def uses(self, rank: int, fault: NodeFault) -> bool | None:
        """Return whether a rank uses the card in a fault of its node; None if unknown.

        No rank is known to use a card that is near no device, such as a management card.
        """
        if rank not in self.cards_of:
            return None
        if self._near(rank, fault) is not None:
            return True
        peers = (peer for peer, node in self.node_of.items() if node == fault.node)
        return False if any(self._near(peer, fault) for peer in peers) else None

    def words(self, rank: int, fault: NodeFault) -> str:
        """Return the known users of the card, to follow its name; empty for other faults."""
        if not is_of_card(fault):
            return ""
        if (near := self._near(rank, fault)) is not None:
            return f", nearest to its device {near.device}: {near.nearness.name}"
        rank_count = sum(node == fault.node for node in self.node_of.values())
        many = f"one of the {rank_count} ranks on {fault.node}"
        return f"; which {many} uses it is not known" if rank_count > 1 else ""

    def _near(self, rank: int, fault: NodeFault) -> NearCard | None:
        """Return a rank's card that a fault is about, as mlx5_0 matches a fault of mlx5_0/1."""
        name = fault.subject.partition("/")[0]
        return next((card for card in self.cards_of.get(rank, ()) if name in card.names), None)


def is_of_card(fault: NodeFault) -> bool:
    """Return whether a fault is in a network card or its port."""
    return CATALOGUE[fault.fact].cause is Cause.NETWORK_FAULT
