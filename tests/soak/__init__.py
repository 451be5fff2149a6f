"""Soaks: a simulated fleet against collectors that are killed, stopped and cut off, for minutes.

`plan` says what runs, `run` starts and disturbs real processes, `sender` keeps receipts of what
was acknowledged, `log` reads what is stored, `slices` and `reference` compute what should be there
without the collector that was disturbed, `comparison` says what holds. The options:
`python -m tests.soak --help`.
"""
