"""Faults that end: how soon they are named and their incidents end, and whether their words hold."""
