"""SLIs over a run as a whole, so far: one file each or a family of one formula, by theme.

A file names its `SLIS`. Nothing else lists them.
"""
