"""`python -m tests.dashboards.pictures [FOLDER]`: run a fleet, photograph the dashboards.

The fleet is that of the tests: a trainer of which a rank becomes slow and whose node gets a fault,
a simulated job, a trial that fails.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from tests.dashboards.node.installed import node
from tests.dashboards.pictures.photograph import photograph
from tests.dashboards.served.recording import recording
from tests.dashboards.served.run import JOB, Fleet

FOLDER = Path(__file__).parents[3] / "dashboards" / "pictures"
AFTER_SECONDS, RANGE_SECONDS = 120.0, 300
"""How long the fault of the node lasts before the picture, and what the pictures show."""


def main(out: Path) -> int:
    """Write a PNG of each dashboard and print its path and size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Fleet(folder) as fleet:
            fleet.wait()
            time.sleep(AFTER_SECONDS)
            recorded = recording(fleet.source, time.time(), RANGE_SECONDS, {"job": JOB})
        (folder / "recording.json").write_text(json.dumps(recorded))
        node("shown.mjs", folder / "recording.json", folder / "shown.json")
        shown = json.loads((folder / "shown.json").read_text())
    for file in photograph(shown, out):
        print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER))
