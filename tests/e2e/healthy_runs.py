"""Runs the demo without a fault several times in a row; exits 1 at the first incident."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def healthy_run(folder: Path) -> str:
    """Run once; return the problem, or an empty string."""
    report = folder / "report.json"
    words = [
        sys.executable,
        "-m",
        "stepwatch.cli",
        "demo",
        "--fault",
        "none",
        "--json",
        str(report),
    ]
    ran = subprocess.run(words, capture_output=True, text=True)
    if ran.returncode != 0:
        return f"exit code {ran.returncode}: {ran.stderr.strip() or ran.stdout.strip()}"
    document = json.loads(report.read_text())
    if document["incidents"]:
        return f"raised {json.dumps(document['incidents'])}"
    if not document["loss_last"] < document["loss_first"]:
        return f"loss went {document['loss_first']} -> {document['loss_last']}"
    return ""


def main(count: int) -> int:
    """Run `count` times and print the result of each."""
    for number in range(1, count + 1):
        with tempfile.TemporaryDirectory() as folder:
            problem = healthy_run(Path(folder))
        print(f"healthy run {number} of {count}: {problem or 'no incident, loss fell'}", flush=True)
        if problem:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
