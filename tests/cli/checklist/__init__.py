"""Tests of checklists."""
