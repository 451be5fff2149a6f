"""A step is the training thread's: what other threads run beside it is not booked into it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stepwatch.hooks import Watch
from stepwatch.signals.records import Kind, Op
from tests.hooks.conftest import only_ring, rows_in

torch = pytest.importorskip("torch", reason="the collectives are torch's")
dist: Any = torch.distributed
GROUP_HOOKS = ("register_pre_hook", "register_post_hook")


class GroupHooksOfLaterTorch:
    """What process groups of torch 2.14 do with hooks: call them where a collective is issued."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._hooks: dict[str, Callable[[Any], None]] = {}
        self._issued = 0
        for name in GROUP_HOOKS:
            monkeypatch.setattr(dist.ProcessGroup, name, self._register(name), raising=False)

    def all_reduce(self, nbytes: int = 32) -> Any:
        """Issue a blocking all-reduce from this thread; the future returned ends it."""
        self._issued += 1
        future: Any = torch.futures.Future()
        arguments = SimpleNamespace(
            name="ALLREDUCE",
            op_id=self._issued,
            input_tensors=[torch.ones(nbytes // 4)],
            async_op=False,
            work=SimpleNamespace(get_future=lambda: future),
        )
        for name in GROUP_HOOKS:
            self._hooks[name](arguments)
        return future

    def _register(self, name: str) -> Callable[[Any, int, Callable[[Any], None]], None]:
        def register(_group: Any, _hook_id: int, hook: Callable[[Any], None]) -> None:
            self._hooks[name] = hook

        return register


@pytest.fixture
def single_rank_group(tmp_path: Path) -> Iterator[None]:
    """A process group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def on_another_thread(work: Callable[[], object]) -> None:
    """Run `work` as an asynchronous checkpoint does."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


@pytest.mark.usefixtures("single_rank_group")
def test_a_collective_of_another_thread_is_not_booked_into_the_step(
    monkeypatch: pytest.MonkeyPatch, watch: Watch, rings: Path
) -> None:
    later_torch = GroupHooksOfLaterTorch(monkeypatch)
    watch.attach()
    pause = threading.Event()

    def saved() -> None:
        future = later_torch.all_reduce(nbytes=4096)
        pause.wait(0.02)
        future.set_result(None)

    with watch.step() as step, step.phase("forward"):
        on_another_thread(saved)
    with watch.step() as step, step.phase("forward"):
        later_torch.all_reduce(nbytes=32).set_result(None)
    assert watch.guard.errors == 0
    steps = rows_in(rings, Kind.STEP)
    assert steps["collective_ns"][0] == 0
    assert steps["forward_ns"][0] >= 18_000_000
    rows = rows_in(rings, Kind.COLLECTIVE)
    assert (rows["step"].tolist(), rows["bytes"].tolist()) == ([1], [32])


@pytest.mark.usefixtures("single_rank_group")
def test_the_collective_line_shows_the_training_threads_collective_only(
    monkeypatch: pytest.MonkeyPatch, watch: Watch, rings: Path
) -> None:
    later_torch = GroupHooksOfLaterTorch(monkeypatch)
    watch.attach()
    reader = only_ring(rings)
    with watch.step():
        later_torch.all_reduce(nbytes=32)
        on_another_thread(lambda: later_torch.all_reduce(nbytes=4096))
        line = reader.collective()
        assert (line.entered, line.inside, line.nbytes) == (1, True, 32)
    reader.close()


class NoCommunication:
    """Stands where FSDP2's communication object stands; a group of one has nothing to send."""

    def __call__(self, output_tensor: Any, input_tensor: Any, group: Any) -> None:
        output_tensor.copy_(input_tensor)


@pytest.mark.usefixtures("single_rank_group")
def test_fsdp2_on_another_thread_is_not_booked_into_the_step(watch: Watch, rings: Path) -> None:
    from stepwatch.hooks.collectives.fsdp2 import TimedCommunication

    timed = TimedCommunication(watch.instruments, NoCommunication(), Op.ALL_GATHER, ())
    tensor, out = torch.ones(8), torch.zeros(8)
    with watch.step() as step, step.phase("forward"):
        on_another_thread(lambda: timed(out, tensor, None))
        assert torch.equal(out, tensor)
    assert len(rows_in(rings, Kind.COLLECTIVE)) == 0
    assert watch.guard.errors == 0


@pytest.mark.usefixtures("single_rank_group")
def test_fsdp2_finds_its_own_objects_where_the_hooks_stand(watch: Watch) -> None:
    """Its setters assert that nobody has put another object there."""
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(torch.nn.Linear(4, 4))
    watch.attach(model=model)
    model.set_allocate_memory_from_process_group_for_comm(True)
    with watch.step():
        model(torch.ones(2, 4)).sum().backward()
    assert watch.guard.errors == 0


@pytest.mark.usefixtures("single_rank_group")
def test_a_reducer_on_another_thread_is_not_booked_into_the_step(watch: Watch, rings: Path) -> None:
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    watch.attach(model=model)
    with watch.step() as step, step.phase("forward"):
        on_another_thread(lambda: model(torch.ones(2, 4)).sum().backward())
    with watch.step() as step, step.phase("backward"):
        model(torch.ones(2, 4)).sum().backward()
    assert watch.guard.errors == 0
    rows = rows_in(rings, Kind.COLLECTIVE)
    # torch >= 2.14 shows DDP's broadcasts as well.
    assert set(rows["step"].tolist()) == {1}
    assert rows["step"][rows["op"] == Op.ALL_REDUCE].tolist() == [1]
    assert rows_in(rings, Kind.STEP)["collective_ns"][0] == 0


def test_what_a_trainer_marks_on_another_thread_leaves_the_step_alone(
    watch: Watch, rings: Path
) -> None:
    def save() -> None:
        with watch.checkpoint(3) as handle, watch.phase("checkpoint"):
            next(iter(watch.batches([1])))
        with watch.collective("barrier"):
            pass
        handle.verified()

    with watch.step() as step, step.phase("forward"):
        on_another_thread(save)
    watch.close()
    row = rows_in(rings, Kind.STEP)[0]
    assert (row["checkpoint_ns"], row["data_ns"], row["collective_ns"]) == (0, 0, 0)
    assert len(rows_in(rings, Kind.COLLECTIVE)) == 0
    events = rows_in(rings, Kind.CHECKPOINT)
    assert events["event"].tolist() == [1, 1, 3]
    assert events["stall_ns"].tolist() == [0, 0, 0], "the loop did not wait"


def test_a_trainer_may_go_on_in_another_thread(watch: Watch, rings: Path) -> None:
    def epoch() -> None:
        with watch.step(), watch.collective("barrier"):
            pass

    epoch()
    on_another_thread(epoch)
    assert rows_in(rings, Kind.COLLECTIVE)["step"].tolist() == [0, 1]


class Nested(torch.autograd.Function):  # type: ignore[misc,name-defined]
    """Runs another backward in its own, as checkpointed layers do, and asks in each."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, depth: int, ask: Callable[[], None]) -> Any:
        """The input."""
        ctx.depth, ctx.ask = depth, ask
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The gradient, after the backward of the next level."""
        ctx.ask()
        if ctx.depth:
            with torch.enable_grad():
                run_backward(ctx.depth - 1, ctx.ask)
        return gradients[0], None, None


def run_backward(depth: int, ask: Callable[[], None]) -> None:
    Nested.apply(torch.ones(2, requires_grad=True), depth, ask).sum().backward()


def test_a_thread_of_the_autograd_engine_works_for_the_training_thread() -> None:
    """On a device, backward runs in threads of torch's own; so it does 60 levels deep on a CPU."""
    from stepwatch.hooks.recorder.training_thread import TrainingThread

    thread = TrainingThread()
    answers: dict[int, bool] = {}

    def ask() -> None:
        answers[threading.get_ident()] = thread.is_current()

    run_backward(70, ask)
    assert len(answers) > 1, "torch ran all levels in one thread"
    assert set(answers.values()) == {True}
    answers.clear()
    on_another_thread(lambda: run_backward(0, ask))
    assert list(answers.values()) == [False], "a thread of the trainer's own has its own backward"
