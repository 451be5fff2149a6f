"""SLIs: one file each, which names its `SLI`. No other list exists."""
