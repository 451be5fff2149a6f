"""Which node owns each rank of an attempt, and which world size its ranks vouch for.

A segment may claim anything: a failure of another node's rank, or a job with 131,072 ranks. So the
first node that reports a rank owns it until the rank ends, or until the node has sent nothing for
`SILENT_SECONDS`. Arrays grow only to the world size that the seen ranks vouch for. Rows about a
rank from another node are withheld, and count once that node takes the rank over: a renamed agent
loses nothing.
"""

from __future__ import annotations

import numpy as np

from stepwatch.collector.state.folding.batches import BATCH_BYTES, Batch, Batches
from stepwatch.collector.state.folding.rows import chosen
from stepwatch.collector.state.readings import Subjects
from stepwatch.collector.state.tracker import CELL_BYTES, MAX_NODES, MAX_WORLD
from stepwatch.signals.arrays import Integers, Mask, Rows, Vector
from stepwatch.signals.records import ENDS, Kind, LifecycleEvent, ProcessState

SILENT_SECONDS = 60.0
"""A node that sends nothing for this long owns no rank: agents flush every few seconds."""
FREE_WORLD = 64
"""World size that one rank can vouch for: its arrays take 7 MB."""
VOUCHED = 16
"""Ranks that each seen rank vouches for beyond that; with fewer reports the world is unknown."""
MAX_VOUCHING = 256
"""Maximum number of vouching ranks per node: no machine runs more training processes."""
MAX_WITHHELD_BYTES = 8 << 20
"""Maximum bytes of withheld rows about foreign ranks: a minute of records from eight ranks."""
_NO_NODE = -1
_OF_NODES = frozenset({Kind.HOST, Kind.NIC, Kind.GAP, Kind.CURSOR, Kind.AGENT})
"""Kinds about a node, whatever rank they name."""
_OF_LIVES = frozenset({Kind.LIFECYCLE, Kind.CHECKPOINT, Kind.GROUP})
"""Kinds whose rows count for the job; a rank that does not exist must not write them."""
_CLAIMING = frozenset({Kind.RANK_STATE, Kind.LIFECYCLE})
"""Kinds whose rows claim a world size, or start or end a rank."""


class RankClaims:
    """Seen ranks and their owner nodes; arrays (seen,) in rank order.

    `ranks` are the rank numbers, `node_at` is each owner's number among `nodes`, `world` the world
    size that each rank claims (0 without a claim), `over` whether the rank has ended.
    """

    def __init__(self) -> None:
        self.nodes = Subjects(MAX_NODES)
        self.ranks: Integers = np.zeros(0, dtype=np.int64)
        self.node_at: Integers = np.zeros(0, dtype=np.int64)
        self.world: Integers = np.zeros(0, dtype=np.int64)
        self.over: Mask = np.zeros(0, dtype=np.bool_)
        self._seen_s: Vector = np.zeros(0)
        """Newest receive time by node (nodes,), Unix seconds on the collector's clock.

        Node clocks may be wrong.
        """
        self._withheld: list[Batch] = []
        """Rows from the newest minutes about ranks that another node owns."""

    def accepted(self, batches: Batches, world: int) -> tuple[Batches, int]:
        """Return the batches without foreign rows, and how many rows were removed.

        Foreign rows are about a rank that another node owns, or about the life of a rank that does
        not exist. The claims in the other rows are applied. `world` is the number of ranks, 0 while
        unknown.
        """
        if self._is_usual(batches, world or MAX_WORLD):
            self._note_all(batches)
            return batches, 0
        admitted: list[Batch] = []
        refused = 0
        for batch in batches:
            alone = Batches([batch])
            if len(batches) > 1 and self._is_usual(alone, world or MAX_WORLD):
                self._note_all(alone)  # as if it had come alone: it numbers no node
                admitted.append(batch)
                continue
            owned, count, earlier = self._without_foreign(batch, world or MAX_WORLD)
            admitted += [*earlier, owned]
            refused += count - sum(map(_row_count, earlier))
        return (Batches(admitted), refused) if refused else (batches, 0)

    def may_start(self, batch: Batch) -> set[int]:
        """Return the ranks that start in a batch and that its node may own."""
        rows = batch.rows(Kind.LIFECYCLE)
        if rows is None:
            return set()
        rows = chosen(rows, rows["event"] == LifecycleEvent.START)
        rank = rows["rank"].astype(np.int64)
        places, is_seen = self._find(rank)
        places = places[is_seen]
        node = int(self.nodes.lookup([batch.node])[0])
        allowed = (self.node_at[places] == node) | self._free(
            places, batch.received.wall_s, lives=True
        )
        return {*rank[~is_seen].tolist(), *rank[is_seen][allowed].tolist()}

    def _is_usual(self, batches: Batches, limit: int) -> bool:
        """Return whether these batches change no claim.

        Then each row comes from its rank's owner, no rank starts or ends, and no claimed world
        size changes.
        """
        numbers = self.nodes.lookup([batch.node for batch in batches])
        for kind in batches.kinds - _OF_NODES:
            rows, origin = batches.table(kind).rows, batches.table(kind).origin
            rank = rows["rank"].astype(np.int64)
            if not len(rank):
                continue
            if kind in _OF_LIVES and int(rank.max()) >= limit:
                return False
            if int(rank.min()) < 0 or int(rank.max()) >= limit:  # some are about no rank
                of_rank = np.flatnonzero((rank >= 0) & (rank < limit))
                rows, rank, origin = chosen(rows, of_rank), rank[of_rank], origin[of_rank]
            places, is_seen = self._find(rank)
            if not is_seen.all() or (self.node_at[places] != numbers[origin]).any():
                return False
            if kind in _CLAIMING and self._claims_more(kind, rows, places):
                return False
        return True

    def _claims_more(self, kind: Kind, rows: Rows, places: Integers) -> bool:
        """Return whether rows start, end or resize the ranks at `places` (rows,)."""
        claims, starts, ends = _claims_in(kind, rows)
        if ends.any() or (starts & self.over[places]).any():
            return True
        return bool(((claims > 0) & (claims != self.world[places])).any())

    def _without_foreign(self, batch: Batch, limit: int) -> tuple[Batch, int, list[Batch]]:
        """Return a batch without foreign rows, their number, and earlier rows that now count.

        The batch's node takes the free ranks. The earlier rows are its withheld rows about ranks
        that it takes over.
        """
        node, earlier_claims = self._note(batch), (self.ranks, self.node_at.copy())
        owned, foreign = self._divided(batch, node, limit)
        previous_nodes = self._taken_over(*earlier_claims, node)
        earlier = (
            self._released(batch.node, node, previous_nodes, limit) if len(previous_nodes) else []
        )
        if not foreign:
            return owned, 0, earlier
        withheld = batch._replace(tables=foreign)
        if limit < MAX_WORLD:  # else the whole batch may wait, and be passed in again
            self._withhold(withheld)
        return owned, _row_count(withheld), earlier

    def _divided(self, batch: Batch, node: int, limit: int) -> tuple[Batch, dict[Kind, Rows]]:
        """Return a batch without rows about ranks of other nodes, and these rows."""
        tables, foreign = dict(batch.tables), {}
        # A rank that starts shows that its other rows may come from this node.
        kinds = batch.tables.keys() - _OF_NODES
        for kind in sorted(kinds, key=lambda kind: (kind is not Kind.LIFECYCLE, kind)):
            rows = batch.tables[kind]
            is_owned = self._claim(kind, rows, node, batch.received.wall_s, limit)
            if not is_owned.all():
                tables[kind], foreign[kind] = chosen(rows, is_owned), chosen(rows, ~is_owned)
        return (batch._replace(tables=tables) if foreign else batch), foreign

    def _taken_over(self, ranks: Integers, node_at: Integers, node: int) -> Integers:
        """Return the owners (by `node_at`) from which `node` took ranks over."""
        now = self.node_at[np.searchsorted(self.ranks, ranks)]
        return np.unique(node_at[(now == node) & (node_at != node) & (node_at != _NO_NODE)])

    def _released(self, name: str, node: int, previous_nodes: Integers, limit: int) -> list[Batch]:
        """Return a node's withheld rows since its ranks' previous owners last reported."""
        since_s = float(self._seen_s[previous_nodes].max())
        withheld = [batch for batch in self._withheld if batch.node == name]
        self._withheld = [batch for batch in self._withheld if batch.node != name]
        recent = [batch for batch in withheld if batch.received.wall_s > since_s]
        return [self._divided(batch, node, limit)[0] for batch in recent]

    def _withhold(self, batch: Batch) -> None:
        oldest_s = batch.received.wall_s - 2 * SILENT_SECONDS
        self._withheld = [batch for batch in self._withheld if batch.received.wall_s >= oldest_s]
        if self._withheld_bytes + BATCH_BYTES + batch.nbytes <= MAX_WITHHELD_BYTES:
            self._withheld.append(batch)

    @property
    def _withheld_bytes(self) -> int:
        return sum(BATCH_BYTES + batch.nbytes for batch in self._withheld)

    def _note(self, batch: Batch) -> int:
        """Return a received batch's node number."""
        node = int(self.nodes.numbered([batch.node])[0])
        more = node + 1 - len(self._seen_s)
        if more > 0:
            self._seen_s = np.append(self._seen_s, np.full(more, -np.inf))
        if node != _NO_NODE:
            self._seen_s[node] = max(self._seen_s[node], batch.received.wall_s)
        return node

    def _note_all(self, batches: Batches) -> None:
        numbers = self.nodes.lookup([batch.node for batch in batches])
        seen_s = np.array([batch.received.wall_s for batch in batches])
        is_numbered = (numbers >= 0) & (numbers < len(self._seen_s))
        np.maximum.at(self._seen_s, numbers[is_numbered], seen_s[is_numbered])

    def _claim(self, kind: Kind, rows: Rows, node: int, seen_s: float, limit: int) -> Mask:
        """Return which rows (rows,) are about no rank or about a rank that `node` now owns."""
        rank = rows["rank"].astype(np.int64)
        is_owned = (rank < limit) if kind in _OF_LIVES else np.ones(len(rows), dtype=np.bool_)
        of_rank = np.flatnonzero((rank >= 0) & (rank < limit))
        if not len(of_rank):
            return is_owned
        self._see(np.unique(rank[of_rank]))
        places, _ = self._find(rank[of_rank])
        claims, starts, ends = _claims_in(kind, rows)
        claims, starts, ends = claims[of_rank], starts[of_rank], ends[of_rank]
        # An end takes no rank from another node: rows of a previous run may report its ranks gone.
        free = self._free(places, seen_s, ~ends) & (~ends | (self.node_at[places] == _NO_NODE))
        self.node_at[places[free]] = node
        is_claimed = self.node_at[places] == node
        is_owned[of_rank] = is_claimed
        places, claims = places[is_claimed], claims[is_claimed]
        self.world[places[claims > 0]] = claims[claims > 0]
        self.over[places[starts[is_claimed]]] = False
        self.over[places[ends[is_claimed]]] = True
        return is_owned

    def _free(self, places: Integers, seen_s: float, lives: Mask | bool) -> Mask:
        """Return which positions (places,) a node seen at `seen_s` may take.

        These are ranks without an owner or with a stale owner. In a run that is over, they are also
        the ranks that the node sees alive (`lives`).
        """
        silent = np.append(self._seen_s < seen_s - SILENT_SECONDS, True)  # -1 means no node
        inactive = self.over | silent[self.node_at]
        free: Mask = silent[self.node_at[places]]
        if 2 * int(inactive.sum()) >= len(inactive):
            free = free | (self.over[places] & lives)
        return free

    def _see(self, ranks: Integers) -> None:
        """Make room for these ranks, which are sorted."""
        _, is_seen = self._find(ranks)
        if is_seen.all():
            return
        more = ranks[~is_seen]
        places = np.searchsorted(self.ranks, more)
        self.ranks = np.insert(self.ranks, places, more)
        self.node_at = np.insert(self.node_at, places, _NO_NODE)
        self.world = np.insert(self.world, places, 0)
        self.over = np.insert(self.over, places, False)

    def _find(self, ranks: Integers) -> tuple[Integers, Mask]:
        """Return the rank positions (ranks,), and which ranks are seen (others: meaningless)."""
        count = len(self.ranks)
        if not count:
            return np.zeros(len(ranks), dtype=np.int64), np.zeros(len(ranks), dtype=np.bool_)
        if self.ranks[-1] == count - 1:  # nearly always: all ranks up to the last
            places = np.minimum(ranks, count - 1)
            return places, ranks < count
        places = np.minimum(np.searchsorted(self.ranks, ranks), count - 1)
        return places, self.ranks[places] == ranks

    def believed_world(self, now: int) -> int:
        """Return the array size to use, given the present size `now`.

        It is the size that most ranks claim, once enough ranks vouch for it. It grows later only if
        most existing ranks claim the larger size.
        """
        inside = self.world[self.ranks < now] if now else self.world
        world, count = _most_claimed(inside)
        if world <= now or (now and 2 * count <= len(inside)):
            return now
        vouching = (self.world == world) & ((self.ranks < now) if now else True)
        return world if world <= max(FREE_WORLD, VOUCHED * self._vouching(vouching)) else now

    def _vouching(self, vouchers: Mask) -> int:
        """Return the number of vouching ranks, at most `MAX_VOUCHING` per node."""
        by_node = np.bincount(self.node_at[vouchers] + 1)
        return int(np.minimum(by_node, MAX_VOUCHING).sum())

    @property
    def doubted_world(self) -> tuple[int, int, int]:
        """The most claimed world size, its number of vouching ranks, and the number needed."""
        world, _ = _most_claimed(self.world)
        return world, self._vouching(self.world == world), -(-world // VOUCHED)

    @property
    def claims_a_world(self) -> bool:
        """Whether any rank reports a world size."""
        return bool((self.world > 0).any())

    def on_nodes_of(self, previous: RankClaims) -> int:
        """Return how many ranks are on nodes that own a rank of another run."""
        names = [*previous.nodes]
        node_names = [
            names[number] for number in np.unique(previous.node_at[previous.node_at >= 0]).tolist()
        ]
        numbers = self.nodes.lookup(node_names)
        return int(np.isin(self.node_at, numbers[numbers >= 0]).sum())

    def speaks(self, node: str) -> bool:
        """Return whether a node owns any rank."""
        return bool((self.node_at == self.nodes.lookup([node])[0]).any()) and node in self.nodes

    def is_silent(self, now_s: float) -> bool:
        """Return whether all owner nodes have sent nothing for `SILENT_SECONDS`."""
        return len(self.silent_ranks(now_s)) == len(self.ranks)

    def silent_ranks(self, now_s: float) -> Integers:
        """Return the ranks whose owner sent nothing for `SILENT_SECONDS` before `now_s` (Unix)."""
        silent = np.append(self._seen_s < now_s - SILENT_SECONDS, True)
        silent_ranks: Integers = self.ranks[silent[self.node_at]]
        return silent_ranks

    @property
    def seen_s(self) -> float:
        """Newest receive time of any node, Unix seconds; minus infinity without one."""
        return float(self._seen_s.max(initial=-np.inf))

    @property
    def cells(self) -> int:
        """Cell count, for the live-state limit."""
        return len(self.ranks) + len(self.nodes) + self._withheld_bytes // CELL_BYTES


def _row_count(batch: Batch) -> int:
    return sum(map(len, batch.tables.values()))


def _most_claimed(worlds: Integers) -> tuple[int, int]:
    """Return the world size that most ranks claim and their number; 0 without a claim.

    The largest size wins a tie. 0, 4, 4, 8 -> 4, twice.
    """
    claimed = worlds[worlds > 0]
    if not len(claimed):
        return 0, 0
    if (claimed == claimed[0]).all():  # nearly always
        return int(claimed[0]), len(claimed)
    claims, counts = np.unique(claimed, return_counts=True)
    place = int(np.lexsort((claims, counts))[-1])
    return int(claims[place]), int(counts[place])


def _claims_in(kind: Kind, rows: Rows) -> tuple[Integers, Mask, Mask]:
    """Return the world size that each row claims, and which rows are starts and which are ends.

    A missing or impossible claim is 0.
    """
    nothing: Mask = np.zeros(len(rows), dtype=np.bool_)
    if kind is Kind.RANK_STATE:
        claims, starts = rows["world"].astype(np.int64), nothing
        ends = rows["process_state"] == ProcessState.GONE
    elif kind is Kind.LIFECYCLE:
        starts, ends = rows["event"] == LifecycleEvent.START, np.isin(rows["event"], ENDS)
        claims = np.where(starts, rows["value"].astype(np.int64), 0)
    else:
        return np.zeros(len(rows), dtype=np.int64), nothing, nothing
    return np.where((claims > 0) & (claims <= MAX_WORLD), claims, 0), starts, ends
