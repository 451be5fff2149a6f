"""One adapter per framework: it ends steps and records the numbers that the framework has.

Phases, collectives and data wait come from `stepwatch.hooks.auto`. Each module imports its
framework; this package imports none.
"""
