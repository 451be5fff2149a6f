"""SLIs over a whole run so far: one file per SLI or family with one formula, by theme.

A file names its `SLIS`. No other list exists.
"""
