"""The reference trainer: a byte-level transformer under every parallel strategy stepwatch watches.

Start it with `stepwatch train` or `torchrun -m stepwatch.trainer`; `README.md` beside this file
says what it promises and what does not work.
"""
