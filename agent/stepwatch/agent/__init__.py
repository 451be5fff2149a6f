"""The per-node agent: it reads rings and probes, spools to disk and sends to the collector."""

import sys

# httpx imports its command line, with rich, pygments and click. That takes 5 MB (the agent has
# 40 MB in total), and the agent never runs it. A stub module keeps httpx from importing it.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
