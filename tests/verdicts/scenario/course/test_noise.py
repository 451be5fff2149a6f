from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.verdicts.scenario.course.noise import COLUMNS, SHARES, TOKENS, Noise
from tests.verdicts.scenario.examples import JOB
from tests.verdicts.scenario.plan import Loads, Pace, Shape


def seconds(
    pace: Pace, ranks: int = 4, nodes: int = 2
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return compute seconds (steps, ranks) of 640 steps."""
    noise = Noise(replace(JOB, pace=pace, ranks=ranks, nodes=nodes))
    return np.stack([noise.step().seconds[:, 1:3].sum(axis=1) for _ in range(640)])


@pytest.mark.parametrize(("ranks", "nodes"), [(2, 1), (4, 4), (8, 1), (8, 2)])
def test_a_step_takes_as_long_as_it_should_whatever_the_shape(ranks: int, nodes: int) -> None:
    durations = seconds(Pace.RECORDED, ranks, nodes)
    usual = SHARES[1:3].sum() * JOB.step_seconds
    assert np.median(durations, axis=0) == pytest.approx(usual, rel=0.1)


def test_no_rank_of_a_healthy_job_is_slower_than_its_peers_for_long() -> None:
    for pace in Pace:
        usual = np.median(seconds(pace), axis=0)
        assert usual.max() / usual.min() < 1.1, pace


@pytest.mark.parametrize("seed", range(6))
def test_no_rank_of_a_healthy_job_jitters_more_than_its_peers_for_minutes(seed: int) -> None:
    noise = Noise(replace(JOB, pace=Pace.RECORDED, ranks=8, nodes=2, seed=seed))
    durations = np.stack([noise.step().seconds[:, :4].sum(axis=1) for _ in range(64)])
    mean = durations.mean(axis=0)
    assert mean.max() / mean.min() < 1.1


@pytest.mark.parametrize(("shape", "apart"), [(Shape.PIPELINE, 2), (Shape.TENSOR, 1)])
def test_ranks_of_a_replica_work_on_the_same_sequences(shape: Shape, apart: int) -> None:
    noise = Noise(replace(JOB, shape=shape, pace=Pace.TOKENS, ranks=8, nodes=2))
    tokens = np.stack([noise.step().tokens for _ in range(32)])
    assert (tokens[:, 0] == tokens[:, apart]).all()
    assert (tokens[:, 0] != tokens[:, 3 - apart]).any()


def test_what_a_step_takes_follows_from_its_tokens_where_it_says_so() -> None:
    noise = Noise(replace(JOB, pace=Pace.TOKENS))
    works = [noise.step() for _ in range(320)]
    forward = np.concatenate([work.seconds[:, COLUMNS.index("forward")] for work in works])
    tokens = np.concatenate([work.tokens for work in works])
    assert np.corrcoef(forward, tokens)[0, 1] > 0.7
    assert tokens.max() < 2 * TOKENS


def test_ranks_of_a_node_are_delayed_together() -> None:
    first, second, *_ = seconds(Pace.RECORDED, 4, 1).T
    assert np.corrcoef(first, second)[0, 1] > 0.15


def batch_delays(
    loads: Loads, steps: int = 640
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the seconds by which batches come later (steps, ranks) than without `loads`."""
    columns = []
    for variant in (loads, Loads()):
        noise = Noise(replace(JOB, loads=variant))
        works = [noise.step().seconds for _ in range(steps)]
        columns.append(np.stack([work[:, COLUMNS.index("data")] for work in works]))
        columns.append(np.stack([work[:, COLUMNS.index("data") + 1 :] for work in works]))
    assert (columns[1] == columns[3]).all(), "nothing else changes"
    return np.asarray(columns[0] - columns[2])


def test_all_ranks_begin_an_epoch_together_and_each_takes_its_time() -> None:
    delays = batch_delays(Loads(epoch_every=50, epoch_seconds=4.0))
    begins = np.flatnonzero(delays.max(axis=1) > 0.0)
    assert begins.tolist() == list(range(50, 640, 50))
    assert delays[begins].min() > 1.0
    assert np.median(delays[begins]) == pytest.approx(4.0, rel=0.2)
    assert (np.ptp(delays[begins], axis=1) > 0.0).all()


def test_a_loader_that_stalls_is_that_of_any_rank() -> None:
    delays = batch_delays(Loads(stall_every=10, stall_seconds=3.0))
    hits = delays > 1e-9
    assert delays[hits] == pytest.approx(3.0)
    assert hits.sum(axis=1).max() == 1
    assert 40 <= hits.sum() <= 90
    assert hits.any(axis=0).all()
