"""SLOs: slices of time, objectives over windows and runs, and waste by cause."""
