"""SLIs: one file each, which names its `SLI`. Nothing else lists them."""
