"""Profiles of requested steps: their sentences on a device, their cost, and unchanged losses."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator

import torch
from torch import Tensor

from stepwatch.collector.analysis.profiles import Profile, compare, read_profile, sentence
from stepwatch.hooks import Watch
from stepwatch.hooks.profiles import profiler
from stepwatch.hooks.profiles.request import ProfileRequest
from tests.gpu.finding import Finding
from tests.gpu.model import batches, layers
from tests.gpu.place import Place

PROFILED, USUAL = 3, 20
MOST_STEPS_LOST = 10.0
"""The budget: steps that a profile of three costs a job."""


def check(place: Place) -> Iterator[Finding]:
    """Profile usual steps, steps with more products, and steps in which all kernels take twice."""
    profiler.LEAST_SECONDS_BETWEEN = 0.0
    bare = _Training(place, "")
    training = _Training(place, "profiled")
    batch, double = next(iter(batches(place, 1))), next(iter(batches(place, 1, 2 * place.rows)))
    first = [bare.step(batch) for _ in range(2 + USUAL)]
    usual = [training.step(batch) for _ in range(2)]
    place.wait()
    peer, lost, losses = training.profile(batch)
    usual += losses
    yield Finding(
        "a profile of 3 steps costs, in usual steps",
        f"{lost:.1f}",
        f"{MOST_STEPS_LOST:.0f}",
        lost <= MOST_STEPS_LOST if place.is_gpu else None,
        {"steps": lost},
    )
    equal = all(torch.equal(*pair) for pair in zip(first, usual, strict=False))
    yield Finding("losses with a profile", "bitwise equal" if equal else "differ", "equal", equal)
    kernels = sum(peer.device.values())
    yield Finding(
        "kernels in a step of the profile, seconds",
        f"{kernels:.4f} of {peer.step_s:.4f}",
        "more than none",
        kernels > 0 if place.is_gpu else None,
    )
    slow, *_ = training.profile(double)
    yield _said("twice the rows", slow, peer, "the same kernels, each", place)
    training.products = 12
    slow, *_ = training.profile(batch)
    yield _said("twelve more products in one layer", slow, peer, "of the excess", place)
    training.close()


def _said(what: str, slow: Profile, peer: Profile, words: str, place: Place) -> Finding:
    text = sentence(compare(slow, peer))
    return Finding(f"profile: {what}", text, words, words in text if place.is_gpu else None)


class _Training:
    def __init__(self, place: Place, job: str) -> None:
        self._place = place
        self._model = layers(place)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-4)
        self._watch = Watch.from_env(job=job) if job else None
        self._weight = next(self._model.parameters()).detach()
        self._count = 0
        self.products = 0
        if self._watch is not None:
            self._watch.attach(model=self._model, optimizer=self._optimizer)

    def step(self, batch: Tensor) -> Tensor:
        """Run one step; return its loss, unread."""
        if self._watch is None:
            return self._train(batch)
        with self._watch.step():
            return self._train(batch)

    def _train(self, batch: Tensor) -> Tensor:
        inputs = batch.to(self._place.kind, non_blocking=True)
        loss = self._model(inputs).float().square().mean()
        for _ in range(self.products):
            torch.mm(inputs, self._weight)
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        detached: Tensor = loss.detach()
        return detached

    def profile(self, batch: Tensor) -> tuple[Profile, float, list[Tensor]]:
        """Return a profile, the usual steps that it cost, and the losses of all steps.

        The losses begin with those of `USUAL` steps, among them the profiled ones.
        """
        assert self._watch is not None
        self._count += 1
        name = f"p{self._count}"
        self._watch.instruments.profiles.ask(ProfileRequest(name, 0, PROFILED))
        losses, seconds = [], []
        for _ in range(USUAL):
            self._place.wait()
            began = time.perf_counter()
            losses.append(self.step(batch))
            self._place.wait()
            seconds.append(time.perf_counter() - began)
        for thread in threading.enumerate():
            if thread.name == "stepwatch-profile":
                thread.join()
        usual_s = statistics.median(seconds[PROFILED + 3 :])
        lost = (sum(seconds) - USUAL * usual_s) / usual_s
        trace = self._watch.instruments.profiles.result(name)
        return read_profile(trace), lost, losses

    def close(self) -> None:
        """Close the watch."""
        if self._watch is not None:
            self._watch.close()
