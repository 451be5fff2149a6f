"""The per-node agent: it reads rings and probes, spools to disk and sends to the collector."""
