"""The comparison's own process: traces come from ranks, and may need any time and memory.

`python -m stepwatch.collector.analysis.profiles.child SLOW PEER` reads two gzip traces and prints
one JSON object: `sentence` and `comparison`, or `problem`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from .comparison import compare
from .document import comparison_document
from .sentence import sentence
from .trace import Profile, read_profile

DEADLINE_SECONDS = 60
MAX_BYTES = 6 << 30
"""Address space; a trace takes six times its unpacked size, 3 GiB for the largest."""


def compare_files(slow: Path, peer: Path) -> dict[str, Any]:
    """Return the comparison of two trace files, or a problem that names the rank."""
    profiles = list[Profile]()
    for name, path in (("slow rank", slow), ("peer", peer)):
        try:
            profiles.append(read_profile(path.read_bytes()))
        except ValueError as error:
            return {"problem": f"the {name}'s trace cannot be read: {error}"}
        except MemoryError:
            return {"problem": f"the {name}'s trace is too large: ask for fewer steps"}
    comparison = compare(*profiles)
    document = comparison_document(profiles[0], comparison)
    return {"sentence": sentence(comparison), "comparison": document}


def main() -> int:
    """Compare the two files of the command line, with bounded time, memory and priority."""
    os.nice(10)
    signal.alarm(DEADLINE_SECONDS)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MAX_BYTES if most == resource.RLIM_INFINITY else min(MAX_BYTES, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))
    slow, peer = map(Path, sys.argv[1:])
    print(json.dumps(compare_files(slow, peer)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
