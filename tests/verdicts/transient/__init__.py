"""Faults that end: when they are named, when their incidents end, and whether words hold."""
