"""Receives segments, keeps them, computes SLIs, judges SLOs, detects, and shows."""
