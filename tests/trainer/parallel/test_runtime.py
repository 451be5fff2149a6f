"""Rank and world size from the launcher's environment."""

from __future__ import annotations

import pytest

from stepwatch.signals.errors import ConfigurationError, UsageError
from stepwatch.trainer.config.mesh import MeshShape
from stepwatch.trainer.parallel.runtime import launched_rank


@pytest.mark.parametrize(
    ("environment", "kind", "reason"),
    [
        ({}, ConfigurationError, "RANK is not set"),
        ({"RANK": "0"}, ConfigurationError, "WORLD_SIZE is not set"),
        ({"RANK": "x", "WORLD_SIZE": "4"}, ConfigurationError, "whole numbers"),
        ({"RANK": "4", "WORLD_SIZE": "4"}, ConfigurationError, "outside 0..3"),
        ({"RANK": "0", "WORLD_SIZE": "3"}, UsageError, "needs 4 ranks, 3 were started"),
    ],
)
def test_an_invalid_rank_or_world_is_refused(
    environment: dict[str, str], kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        launched_rank(environment, MeshShape(pp=2, dp_shard=2))
