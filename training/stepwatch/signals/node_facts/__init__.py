"""Node facts: the problems that a probe can find with hardware, kernel, disks and network.

`catalogue.toml` lists each fact's meaning, action and end; `xids.toml` does so for each NVIDIA XID
error, with its sources.
"""
