"""Records the cases of `loops` again: `python -m tests.pauses.record [case ...]`.

Ranks, agent and collector are real. A recording has the agent's segments without the kinds that no
pause detector reads. A case takes half a minute.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from stepwatch.agent.app import Agent, AgentOptions
from stepwatch.collector.runtime.service import Service
from stepwatch.collector.store import Store
from stepwatch.collector.web.api import make_api
from stepwatch.signals import wire
from stepwatch.signals.records import Kind
from tests.agent.conftest import serving

from .loops import CASES
from .recording import ReceivedSegment, save

RECORDED_KINDS = frozenset(
    {
        Kind.STEP, Kind.RANK_STATE, Kind.LIFECYCLE, Kind.GROUP, Kind.DIAGNOSIS, Kind.FLIGHT,
        Kind.CHECKPOINT, Kind.AGENT,
    }
)  # fmt: skip
SINGLE_PROCESS = "single-process-pause"
TAIL_SECONDS = 3.0


def record(case: str, folder: Path) -> list[ReceivedSegment]:
    """Run one case; return the segments that the collector received, oldest first."""
    store = Store.sqlite(folder / "store.db")
    with serving(make_api(Service(store))) as url:
        agent = Agent(AgentOptions(folder / "rings", folder / "spool", url, "n1", port=None))
        thread = threading.Thread(target=agent.run)
        thread.start()
        try:
            _train(case, folder)
            threading.Event().wait(TAIL_SECONDS)
        finally:
            agent.stop()
            thread.join(30)
    return list(_filter(store, case))


def _train(case: str, folder: Path) -> None:
    clean = {name: value for name, value in os.environ.items() if "STEPWATCH" not in name}
    environ = {
        **clean,
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *filter(None, sys.path)]),
        "STEPWATCH_RING_DIR": str(folder / "rings"),
        "OMP_NUM_THREADS": "1",
    }
    module = ["-m", "tests.pauses.loops", case]
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    words = [sys.executable, *([] if case == SINGLE_PROCESS else launcher), *module]
    subprocess.run(words, env=environ, check=True, timeout=120)


def _filter(store: Store, job: str) -> Iterator[ReceivedSegment]:
    for payload in store.segments(job):
        segment = wire.decode(payload.payload)
        tables = {kind: rows for kind, rows in segment.tables.items() if kind in RECORDED_KINDS}
        if tables:
            yield ReceivedSegment(payload.received_ns, wire.encode(segment._replace(tables=tables)))


def main(cases: list[str]) -> None:
    """Record `cases`, all without any."""
    for case in cases or list(CASES):
        with TemporaryDirectory() as folder:
            print(case, save(case, record(case, Path(folder))), "bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
