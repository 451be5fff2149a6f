"""Vocabulary that all parts share: records, names, wire format, clock, errors.

It needs numpy; the wire format also needs zstandard, which agent and collector install.
"""
