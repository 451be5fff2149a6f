"""From the spool to the collector."""
