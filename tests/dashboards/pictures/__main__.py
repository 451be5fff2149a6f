"""`python -m tests.dashboards.pictures [FOLDER]`: run a fleet, photograph the dashboards.

The fleet is that of the tests: a trainer with a rank that becomes slow and a node that gets a
fault, a simulated job, a trial that fails. `--drill DIR --job JOB` instead reads the Prometheus
data of `make drill ARGS="--keep DIR"`, up to the last moment at which that job had an incident.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from stepwatch.signals.names import INCIDENT_OPEN, JOB
from tests.dashboards.node.toolchain import node
from tests.dashboards.pictures.photograph import photograph
from tests.dashboards.served.grafana import Source
from tests.dashboards.served.recording import recording
from tests.dashboards.served.run import JOB as TRAINED
from tests.dashboards.served.run import Fleet
from tests.drill.chain.servers import DrillError, Servers

FOLDER = Path(__file__).parents[3] / "dashboards" / "pictures"
AFTER_SECONDS, RANGE_SECONDS = 120.0, 300
"""Duration of the node's fault before the picture, and the time range of the pictures."""


def main(words: list[str]) -> int:
    """Write a PNG of each dashboard and print its path and size."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.dashboards.pictures", description="Photograph the dashboards."
    )
    parser.add_argument("out", nargs="?", type=Path, default=FOLDER, metavar="FOLDER")
    parser.add_argument("--drill", type=Path, metavar="DIR", help="what a drill kept")
    parser.add_argument("--job", default="drill-hang", help="of the drill (drill-hang)")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            recorded = (
                record_drill(arguments.drill, arguments.job)
                if arguments.drill
                else record_fleet(folder)
            )
        except DrillError as error:
            parser.error(str(error))
        (folder / "recording.json").write_text(json.dumps(recorded))
        node("shown.mjs", folder / "recording.json", folder / "shown.json")
        shown = json.loads((folder / "shown.json").read_text())
    for file in photograph(shown, arguments.out):
        print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
    return 0


def record_fleet(folder: Path) -> dict[str, Any]:
    """The answers of a Prometheus that watches the fleet of the tests."""
    with Fleet(folder) as fleet:
        fleet.wait()
        time.sleep(AFTER_SECONDS)
        return recording(fleet.source, time.time(), RANGE_SECONDS, {"job": TRAINED})


def record_drill(drill_folder: Path, job: str) -> dict[str, Any]:
    """Return the answers of a Prometheus on the data of a drill in `drill_folder`.

    Raises:
        DrillError: the data have no incident of that job, or Prometheus does not start.
    """
    servers = Servers(drill_folder.absolute(), {})
    servers.start_prometheus()
    source = Source(servers.prometheus)
    try:
        opened = f'timestamp({INCIDENT_OPEN.name}{{{JOB}="{job}"}} > 0)'
        opened_at = source.ask(f"max(max_over_time({opened}[1d:5s]))", True, time.time())[1]
        if not opened_at:
            raise DrillError(f"{drill_folder} has no incident of {job} in the last day")
        moment_s = float(opened_at[0]["value"][1])
        return recording(source, moment_s, RANGE_SECONDS, {"job": job})
    finally:
        source.close()
        servers.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
