"""`stepwatch up`: agent, collector and page on this machine, until Ctrl-C."""
