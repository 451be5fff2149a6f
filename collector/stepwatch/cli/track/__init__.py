"""Writes a job's pace, SLIs and incidents into its run in an experiment tracker.

`sample` turns the collector's answers into values and notes, `loop` polls, and each other module
writes into one tracker by the tracker's own library.
"""
