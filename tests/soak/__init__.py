"""Soaks: a simulated fleet against collectors that are killed, stopped and cut off, for minutes.

`plan` describes the run, `run` starts and disturbs real processes, `sender` keeps receipts of
acknowledged segments, `log` reads the store, `slices` and `reference` compute the expected content
without the disturbed collector, `comparison` checks the store against it. The options:
`python -m tests.soak --help`.
"""
