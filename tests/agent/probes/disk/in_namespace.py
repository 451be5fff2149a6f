"""Run below `unshare --mount`: a real file system that fills up and becomes read-only, and what the
probe finds at each moment, as lines of JSON. Nobody else on this machine sees the mount."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from stepwatch.agent.probes.disk import DiskProbe
from stepwatch.signals.clock import SystemClock


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def main(folder: Path) -> None:
    image, place = folder / "image", folder / "with blank"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(16 << 20)
    run("mkfs.ext4", "-q", "-N", "64", str(image))
    run("mount", "-o", "loop", str(image), str(place))
    probe = DiskProbe(SystemClock())

    def say() -> None:
        probe.read()
        facts = [fact for fact in probe.facts() if fact.subject == str(place)]
        print(json.dumps([(fact.fact.name, fact.text) for fact in facts]), flush=True)

    say()
    with open(place / "filler", "wb") as filler:
        room = os.statvfs(place)
        filler.write(b"\1" * (room.f_bavail * room.f_bsize))
    say()
    (place / "filler").unlink()
    say()
    try:
        for number in range(100):
            (place / f"empty-{number}").touch()
    except OSError:
        pass
    say()
    run("mount", "-o", "remount,ro", str(place))
    say()
    run("mount", "-o", "remount,rw", str(place))
    for empty in place.glob("empty-*"):
        empty.unlink()
    say()
    run("umount", str(place))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
