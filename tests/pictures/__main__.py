"""`python -m tests.pictures FOLDER` photographs every view of the page, from demos and a fleet.

`--only WORD` photographs the scenes whose names hold the word.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.browser import opened_browser

from .camera import Camera
from .scenes import SCENES


def main(words: list[str]) -> int:
    """Photograph the chosen scenes, and print each file."""
    parser = argparse.ArgumentParser(prog="python -m tests.pictures", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", metavar="WORD")
    options = parser.parse_args(words)
    options.folder.mkdir(parents=True, exist_ok=True)
    with opened_browser() as browser:
        camera = Camera(browser, options.folder)
        for name, scene in SCENES.items():
            if options.only in name:
                with tempfile.TemporaryDirectory() as folder:
                    scene(camera, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
