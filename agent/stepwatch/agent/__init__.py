"""One process per node: reads black boxes and probes, spools to disk, sends to the collector."""

import sys

# httpx imports its command line, with rich, pygments and click: 5 of the agent's 40 MB, none of
# which runs here. It goes on without where that module is known not to be there.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
