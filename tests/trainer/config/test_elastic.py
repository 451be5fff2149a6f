"""The mesh of an elastic job."""

from __future__ import annotations

import pytest

from stepwatch.signals.errors import UsageError
from stepwatch.trainer.config.elastic import fit_mesh
from stepwatch.trainer.config.mesh import MeshShape, parse_mesh
from tests.trainer.builders import options_of


def test_an_elastic_mesh_shrinks_its_data_axes_only() -> None:
    options = options_of("--nodes 1:2 --mesh pp=2,dp_replicate=2,dp_shard=2 --microbatches 4")
    assert fit_mesh(options, 8) == parse_mesh("pp=2,dp_replicate=2,dp_shard=2")
    assert fit_mesh(options, 4) == MeshShape(pp=2, dp_shard=2)
    assert fit_mesh(options, 2) == MeshShape(pp=2)
    with pytest.raises(UsageError, match="3 ranks cannot carry pp=2"):
        fit_mesh(options, 3)
