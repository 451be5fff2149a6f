"""Transport from the spool to the collector."""
