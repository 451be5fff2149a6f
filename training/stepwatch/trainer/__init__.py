"""The reference trainer: a byte-level transformer with every parallel strategy of the hooks.

Start it with `stepwatch train` or `torchrun -m stepwatch.trainer`; `README.md` in this folder
lists guarantees and limits.
"""
