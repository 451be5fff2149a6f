"""A mesh in one word puts each rank at its place, or says what is wrong with it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stepwatch.hooks import Watch
from stepwatch.hooks.opening.mesh import place_in, read_mesh
from stepwatch.signals import places
from stepwatch.signals.errors import ConfigurationError
from tests.hooks.conftest import only_ring


def test_the_last_axis_changes_from_rank_to_rank() -> None:
    coordinates = [place_in("pp=2,dp=2", rank, 4).coordinates for rank in range(4)]
    assert [(place["pp"], place["dp_replicate"]) for place in coordinates] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
    assert place_in("dp=2, pp=2", 1, 4).coordinates["pp"] == 1, (
        "the order says what lies next to what"
    )
    assert place_in("fsdp=2,cp=2,tp=2", 5, 8) == (
        {"dp_shard": 1, "tp": 1},
        {"dp_shard": 2, "tp": 2},
    )


@pytest.mark.parametrize("text", ["", "pp", "pp=0", "pp=x", "stage=2", "pp=2,", "pp=2;dp=2"])
def test_what_is_no_mesh_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigurationError, match="for example pp=2,dp=4"):
        read_mesh(text)


def test_an_axis_named_twice_and_a_mesh_of_other_size_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="named twice"):
        read_mesh("dp=2,dp_replicate=2")
    with pytest.raises(ConfigurationError, match="of 4 ranks, and the job has 8"):
        place_in("pp=2,dp=2", 0, 8)


@pytest.fixture
def rank_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of the last rank of four."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")


@pytest.mark.usefixtures("rank_three")
def test_the_environment_names_the_stage_of_a_rank(
    rings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(places.ENV_MESH, "pp=2,dp=2")
    watch = Watch.from_env(job="job")
    identity = only_ring(rings).identity
    assert (identity.stage, identity.mesh_size) == (1, (2, 2, 1, 1))
    watch.close()


@pytest.mark.usefixtures("rank_three")
def test_a_mesh_of_another_world_is_one_line_and_no_error(
    rings: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(places.ENV_MESH, "pp=2")
    with caplog.at_level(logging.WARNING, logger="stepwatch"):
        assert not Watch.from_env(job="job").enabled
    assert "mesh 'pp=2' is of 2 ranks, and the job has 4" in caplog.text
