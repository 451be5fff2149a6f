"""Shapes of the mesh and coordinates of ranks in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwatch.signals.errors import UsageError
from stepwatch.trainer.config.mesh import AXES, MeshShape, parse_mesh

sizes = st.integers(1, 4)
shapes = st.builds(MeshShape, pp=sizes, dp_replicate=sizes, dp_shard=sizes, tp=sizes)


@given(shapes)
def test_every_rank_has_its_own_coordinates(shape: MeshShape) -> None:
    coordinates = [tuple(shape.coordinates_of(rank).index.values()) for rank in range(shape.world)]
    assert len(set(coordinates)) == shape.world
    assert sorted(coordinates) == coordinates


@given(shapes)
def test_ranks_of_one_model_copy_read_the_same_data(shape: MeshShape) -> None:
    readers: dict[int, int] = {}
    for rank in range(shape.world):
        part = shape.coordinates_of(rank).data_rank
        readers[part] = readers.get(part, 0) + 1
    assert readers == dict.fromkeys(range(shape.data_ranks), shape.pp * shape.tp)


@given(shapes)
def test_the_flag_reads_back(shape: MeshShape) -> None:
    assert parse_mesh(shape.flag) == shape


def test_an_axis_that_is_not_given_is_one() -> None:
    assert parse_mesh("pp=2, dp_shard=4") == MeshShape(pp=2, dp_shard=4)
    assert parse_mesh("") == MeshShape()


@pytest.mark.parametrize("text", ["dp=2", "pp", "pp=0", "pp=-1", "pp=x", "pp=2,pp=2", "pp=9999999"])
def test_an_invalid_mesh_is_refused_and_the_axes_are_listed(text: str) -> None:
    with pytest.raises(UsageError, match=", ".join(AXES)):
        parse_mesh(text)
