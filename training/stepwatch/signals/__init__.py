"""Vocabulary that every part of stepwatch shares: records, names, wire format, clock, health, errors.

Depends on numpy only (the wire format also needs zstandard, which agent and collector install).
"""
