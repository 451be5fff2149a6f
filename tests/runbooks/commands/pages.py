"""All pages, runbooks and playbooks, for tests that cover both."""

from __future__ import annotations

import pytest

from stepwatch import runbooks

FAMILIES = (runbooks.RUNBOOKS, runbooks.PLAYBOOKS)
every_page = pytest.mark.parametrize(
    ("name", "family"),
    [
        pytest.param(name, family, id=name)
        for family in FAMILIES
        for name in runbooks.names(family=family)
    ],
)
"""Parametrizes a test over the name and family of each page."""
