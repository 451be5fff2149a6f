"""One file per framework: who ends a step, and the numbers that the framework knows of it.

Phases, collectives and data wait come from `stepwatch.hooks.auto`. Each module imports its
framework, and this package none of them.
"""
