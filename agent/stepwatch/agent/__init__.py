"""One process per node: reads black boxes and probes, spools to disk, sends to the collector."""
