"""A child: all-reduce between node pairs, one process per node, all pairs in a round at once.

Run `python -m stepwatch.agent.doctor.children.pairs SECONDS HOST PORT NODES NODE NAME` on every
node. Each node prints all pair rates as one JSON line. Gloo over TCP tests the network that ranks
use for control messages, and the slower data path.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from .asking import NOT_INSTALLED

MEET_SECONDS = 60.0
"""Seconds that nodes wait for each other."""
MOST_ROUNDS = 7
"""Maximum number of peers per node: enough to distinguish a slow node from a slow peer."""
BYTES = 1 << 20
MOST_SECONDS_A_CALL = 10.0


def rounds(nodes: int) -> list[list[tuple[int, int]]]:
    """Return rounds in which every node has one peer and no pair meets twice.

    This is the circle method: node 0 stays, the others move by one. For 4 nodes: 0-3 1-2, then
    0-2 3-1, then 0-1 2-3. With an odd number one node pauses in each round.
    """
    places = list(range(nodes + nodes % 2))
    schedule = []
    for _ in range(min(len(places) - 1, MOST_ROUNDS)):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        schedule.append([pair for pair in pairs if max(pair) < nodes])
        places = [places[0], places[-1], *places[1:-1]]
    return schedule


def measured(dist: Any, torch: Any, group: Any, seconds: float) -> float:
    """Return the all-reduce rate between two nodes in bytes per second."""
    values = torch.ones(BYTES // 4)
    dist.all_reduce(values, group=group)  # opens the connection
    times, begins = 0, time.monotonic()
    going = torch.ones(1)
    while bool(going.item()):
        values.fill_(1.0)
        dist.all_reduce(values, group=group)
        times += 1
        going.fill_(float(time.monotonic() - begins < seconds))
        dist.all_reduce(going, op=dist.ReduceOp.MIN, group=group)
    return times * BYTES / (time.monotonic() - begins)


def meetings(dist: Any, torch: Any, nodes: int, node: int, seconds: float) -> Iterator[list[float]]:
    """Yield (node, node, bytes per second) for each pair in which this node is first."""
    plan = rounds(nodes)
    for pairs in plan:
        groups = [
            (pair, dist.new_group(list(pair))) for pair in pairs
        ]  # on all nodes, in one order
        for pair, group in groups:
            if node in pair:
                rate = measured(dist, torch, group, seconds / len(plan))
                if node == pair[0]:
                    yield [*pair, rate]
        dist.barrier()


def main(seconds: float, host: str, port: int, nodes: int, node: int, name: str) -> int:
    """Meet the other nodes, measure, and print all pair rates."""
    try:
        import torch
        import torch.distributed as dist
        from torch._C._distributed_c10d import PrefixStore, TCPStore
    except ImportError:
        return NOT_INSTALLED
    wait = timedelta(seconds=MEET_SECONDS)
    store = TCPStore(host, port, nodes, is_master=node == 0, timeout=wait)
    store.set(f"name/{node}", name)
    dist.init_process_group(
        "gloo",
        store=PrefixStore("pairs", store),
        rank=node,
        world_size=nodes,
        timeout=timedelta(seconds=MEET_SECONDS + seconds + MOST_SECONDS_A_CALL),
    )
    store.set(f"found/{node}", json.dumps(list(meetings(dist, torch, nodes, node, seconds))))
    names = [store.get(f"name/{peer}").decode() for peer in range(nodes)]
    rates = [pair for peer in range(nodes) for pair in json.loads(store.get(f"found/{peer}"))]
    print(json.dumps({"names": names, "pairs": rates}), flush=True)
    dist.barrier()  # node 0 serves the store
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main(float(words[0]), words[1], int(words[2]), int(words[3]), int(words[4]), words[5]))
