"""Receives segments, keeps them, computes SLIs, evaluates SLOs, detects, and shows."""
