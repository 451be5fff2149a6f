"""Which node speaks for each rank of an attempt, and how large a world its ranks vouch for.

A segment says anything: that a rank of another node failed, that the job has 131,072 ranks. So the
node that reports a rank first speaks for it until the rank ends, or until nothing came from that
node for `SILENT_SECONDS`; and room is made for so many ranks only as those seen vouch for. What
another node says of a rank meanwhile counts once it takes the rank over: an agent that was renamed
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
"""A node of which nothing came for so long speaks for no rank: agents flush every few seconds."""
FREE_WORLD = 64
"""A world that one rank vouches for: its arrays take 7 MB."""
VOUCHED = 16
"""Ranks that each rank seen vouches for beyond that: a job of which fewer report is not known."""
MAX_VOUCHING = 256
"""Ranks of one node that vouch: more processes than that compute on no machine."""
MAX_WITHHELD_BYTES = 8 << 20
"""Rows kept of ranks that another node speaks for: what eight ranks send in a minute."""
_NO_NODE = -1
_OF_NODES = frozenset({Kind.HOST, Kind.NIC, Kind.GAP, Kind.CURSOR, Kind.AGENT})
"""Kinds that are about a node, whatever rank they name."""
_OF_LIVES = frozenset({Kind.LIFECYCLE, Kind.CHECKPOINT, Kind.GROUP})
"""Kinds whose rows count for the job, so that a rank which does not exist must not write them."""


class RankClaims:
    """Ranks seen and their nodes; arrays (seen,) in the order of the ranks.

    `ranks` are their numbers, `node_at` the number among `nodes` of the node that speaks for each,
    `world` the world that each claims (0 while it claims none), `over` whether it ended.
    """

    def __init__(self) -> None:
        self.nodes = Subjects(MAX_NODES)
        self.ranks: Integers = np.zeros(0, dtype=np.int64)
        self.node_at: Integers = np.zeros(0, dtype=np.int64)
        self.world: Integers = np.zeros(0, dtype=np.int64)
        self.over: Mask = np.zeros(0, dtype=np.bool_)
        self._seen_s: Vector = np.zeros(0)
        """When the collector received something of each node last (nodes,), Unix seconds: clocks of
        nodes may be wrong."""
        self._withheld: list[Batch] = []
        """Rows about ranks that another node speaks for, of the newest minutes."""

    def accepted(self, batches: Batches, world: int) -> tuple[Batches, int]:
        """The batches without rows about a rank that another node speaks for, or about the life of
        one that does not exist, and how many rows are left out. What the others claim is taken.

        `world` is how many ranks there are, 0 while that is unknown.
        """
        if self._is_usual(batches, world or MAX_WORLD):
            self._note_all(batches)
            return batches, 0
        admitted: list[Batch] = []
        refused = 0
        for batch in batches:
            owned, count, earlier = self._without_foreign(batch, world or MAX_WORLD)
            admitted += [*earlier, owned]
            refused += count - sum(map(_row_count, earlier))
        return (Batches(admitted), refused) if refused else (batches, 0)

    def may_start(self, batch: Batch) -> set[int]:
        """Ranks that start in a batch and that its node may speak for."""
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
        """Whether every rank is spoken for by the node that each row comes from, none ends or
        begins, and each claims the world that it claimed before."""
        numbers = self.nodes.lookup([batch.node for batch in batches])
        for kind in batches.kinds - _OF_NODES:
            table = batches.table(kind)
            rank = table.rows["rank"].astype(np.int64)
            if kind in _OF_LIVES and (rank >= limit).any():
                return False
            of_rank = np.flatnonzero((rank >= 0) & (rank < limit))
            places, is_seen = self._find(rank[of_rank])
            if not is_seen.all() or (self.node_at[places] != numbers[table.origin[of_rank]]).any():
                return False
            claims, starts, ends = _claims_in(kind, table.rows)
            claims, starts = claims[of_rank], starts[of_rank]
            if ends[of_rank].any() or (starts & self.over[places]).any():
                return False
            if ((claims > 0) & (claims != self.world[places])).any():
                return False
        return True

    def _without_foreign(self, batch: Batch, limit: int) -> tuple[Batch, int, list[Batch]]:
        """A batch without rows of ranks of other nodes, and how many these are; its node claims
        what is free. Third, what its node said before of ranks that it takes over now."""
        node, earlier_claims = self._note(batch), (self.ranks, self.node_at.copy())
        owned, foreign = self._divided(batch, node, limit)
        previous_nodes = self._taken_over(*earlier_claims, node)
        earlier = (
            self._released(batch.node, node, previous_nodes, limit) if len(previous_nodes) else []
        )
        if not foreign:
            return owned, 0, earlier
        withheld = batch._replace(tables=foreign)
        if limit < MAX_WORLD:  # else the whole batch may wait for a world, and be given once more
            self._withhold(withheld)
        return owned, _row_count(withheld), earlier

    def _divided(self, batch: Batch, node: int, limit: int) -> tuple[Batch, dict[Kind, Rows]]:
        """A batch without rows of ranks of other nodes, and these rows."""
        tables, foreign = dict(batch.tables), {}
        # That a rank starts says that its other rows may come from here.
        kinds = batch.tables.keys() - _OF_NODES
        for kind in sorted(kinds, key=lambda kind: (kind is not Kind.LIFECYCLE, kind)):
            rows = batch.tables[kind]
            is_owned = self._claim(kind, rows, node, batch.received.wall_s, limit)
            if not is_owned.all():
                tables[kind], foreign[kind] = chosen(rows, is_owned), chosen(rows, ~is_owned)
        return (batch._replace(tables=tables) if foreign else batch), foreign

    def _taken_over(self, ranks: Integers, node_at: Integers, node: int) -> Integers:
        """Numbers of the nodes that `node` took ranks from, where these were at `node_at`."""
        now = self.node_at[np.searchsorted(self.ranks, ranks)]
        return np.unique(node_at[(now == node) & (node_at != node) & (node_at != _NO_NODE)])

    def _released(self, name: str, node: int, previous_nodes: Integers, limit: int) -> list[Batch]:
        """What a node said of ranks since anything came from the nodes that it took them from."""
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
        """The number of the node of a batch, from which something came."""
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
        """Which rows (rows,) are about no rank, or about one that `node` speaks for from now on."""
        rank = rows["rank"].astype(np.int64)
        is_owned = (rank < limit) if kind in _OF_LIVES else np.ones(len(rows), dtype=np.bool_)
        of_rank = np.flatnonzero((rank >= 0) & (rank < limit))
        if not len(of_rank):
            return is_owned
        self._see(np.unique(rank[of_rank]))
        places, _ = self._find(rank[of_rank])
        claims, starts, ends = _claims_in(kind, rows)
        claims, starts, ends = claims[of_rank], starts[of_rank], ends[of_rank]
        # An end takes no place of another node: rows of a run before may report its ranks gone.
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
        """Which places (places,) a node that is seen at `seen_s` may take: of ranks that no node
        speaks for, or a silent one; and of a run that is over, those of ranks that it sees alive
        (`lives`)."""
        silent = np.append(self._seen_s < seen_s - SILENT_SECONDS, True)  # -1 is no node
        inactive = self.over | silent[self.node_at]
        free: Mask = silent[self.node_at[places]]
        if 2 * int(inactive.sum()) >= len(inactive):
            free = free | (self.over[places] & lives)
        return free

    def _see(self, ranks: Integers) -> None:
        """Have a place for each of these ranks, which rise."""
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
        """Places of ranks (ranks,), and which are seen; places of the others mean nothing."""
        count = len(self.ranks)
        if not count:
            return np.zeros(len(ranks), dtype=np.int64), np.zeros(len(ranks), dtype=np.bool_)
        if self.ranks[-1] == count - 1:  # all up to the last, as nearly always
            places = np.minimum(ranks, count - 1)
            return places, ranks < count
        places = np.minimum(np.searchsorted(self.ranks, ranks), count - 1)
        return places, self.ranks[places] == ranks

    def believed_world(self, now: int) -> int:
        """The size to make room for, where that is `now`: what most ranks claim, once they vouch
        for it. It grows later only where most of the ranks that exist say so."""
        inside = self.world[self.ranks < now] if now else self.world
        world, count = _most_claimed(inside)
        if world <= now or (now and 2 * count <= len(inside)):
            return now
        vouching = (self.world == world) & ((self.ranks < now) if now else True)
        return world if world <= max(FREE_WORLD, VOUCHED * self._vouching(vouching)) else now

    def _vouching(self, vouchers: Mask) -> int:
        """How many of these ranks vouch: not more than a machine has."""
        by_node = np.bincount(self.node_at[vouchers] + 1)
        return int(np.minimum(by_node, MAX_VOUCHING).sum())

    @property
    def doubted_world(self) -> tuple[int, int, int]:
        """The world that most ranks claim, how many vouch for it, and how many would have to."""
        world, _ = _most_claimed(self.world)
        return world, self._vouching(self.world == world), -(-world // VOUCHED)

    @property
    def claims_a_world(self) -> bool:
        """Whether any rank says how many there are."""
        return bool((self.world > 0).any())

    def on_nodes_of(self, previous: RankClaims) -> int:
        """How many of its ranks are on nodes that speak for a rank of another run."""
        names = [*previous.nodes]
        node_names = [
            names[number] for number in np.unique(previous.node_at[previous.node_at >= 0]).tolist()
        ]
        numbers = self.nodes.lookup(node_names)
        return int(np.isin(self.node_at, numbers[numbers >= 0]).sum())

    def speaks(self, node: str) -> bool:
        """Whether a node speaks for any rank."""
        return bool((self.node_at == self.nodes.lookup([node])[0]).any()) and node in self.nodes

    def is_silent(self, now_s: float) -> bool:
        """Whether nothing came from any node that speaks for a rank for `SILENT_SECONDS`."""
        return len(self.silent_ranks(now_s)) == len(self.ranks)

    def silent_ranks(self, now_s: float) -> Integers:
        """Ranks of nodes of which nothing came for `SILENT_SECONDS` before `now_s` (Unix)."""
        silent = np.append(self._seen_s < now_s - SILENT_SECONDS, True)
        silent_ranks: Integers = self.ranks[silent[self.node_at]]
        return silent_ranks

    @property
    def seen_s(self) -> float:
        """When any node was last seen, Unix seconds; minus infinity before."""
        return float(self._seen_s.max(initial=-np.inf))

    @property
    def cells(self) -> int:
        """What it holds, for the bound on live state."""
        return len(self.ranks) + len(self.nodes) + self._withheld_bytes // CELL_BYTES


def _row_count(batch: Batch) -> int:
    return sum(map(len, batch.tables.values()))


def _most_claimed(worlds: Integers) -> tuple[int, int]:
    """The world that most ranks claim, of several the largest, and how many do; 0 while none does.

    0, 4, 4, 8 -> 4, twice.
    """
    claims, counts = np.unique(worlds[worlds > 0], return_counts=True)
    if not len(claims):
        return 0, 0
    place = int(np.lexsort((claims, counts))[-1])
    return int(claims[place]), int(counts[place])


def _claims_in(kind: Kind, rows: Rows) -> tuple[Integers, Mask, Mask]:
    """The world that each row claims, 0 where it claims none that can be; which tell of a start,
    and which of an end."""
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
