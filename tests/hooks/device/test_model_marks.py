"""Hooks on a model tell forward from backward, and change nothing that the model is or does."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from stepwatch.hooks.device.marks import DeviceMarks  # noqa: E402
from stepwatch.hooks.device.model_marks import (  # noqa: E402
    MOST_BLOCKS,
    ModelMarks,
    blocks_of,
    mark_model,
)
from stepwatch.hooks.device.pool import EventPool  # noqa: E402
from stepwatch.hooks.guard import Guard  # noqa: E402
from stepwatch.hooks.recorder.recorder import Recorder  # noqa: E402
from stepwatch.hooks.watch import Watch  # noqa: E402
from stepwatch.signals.records import Phase  # noqa: E402

from .scripted import ScriptedDevice, ignore  # noqa: E402

OTHER, FORWARD, BACKWARD = int(Phase.OTHER), int(Phase.FORWARD), int(Phase.BACKWARD)


class Managed:
    """What FSDP2 adds to the class of a module that it manages, as far as the marks ask for it."""

    def set_custom_all_gather(self, _comm: Any) -> None: ...


class Block(Managed, torch.nn.Linear):  # type: ignore[misc, name-defined]
    """A managed block."""


class ManagedList(Managed, torch.nn.Sequential):  # type: ignore[misc, name-defined]
    """A managed root."""


class Net(Managed, torch.nn.Module):  # type: ignore[misc, name-defined]
    """Twelve blocks, each of which takes the host a millisecond of the scripted clock."""

    def __init__(self, device: ScriptedDevice | None = None, *, recompute: bool = False) -> None:
        super().__init__()
        self.device = device
        self.recompute = recompute
        self.blocks = torch.nn.ModuleList(Block(4, 4) for _ in range(12))

    def forward(self, inputs: Any) -> Any:
        for block in self.blocks:
            if self.recompute:
                inputs = torch.utils.checkpoint.checkpoint(block, inputs, use_reentrant=False)
            else:
                inputs = block(inputs)
            if self.device is not None:
                self.device.host(10**6)
        return inputs


@pytest.fixture
def device() -> ScriptedDevice:
    return ScriptedDevice()


@pytest.fixture
def marks(watch: Watch, device: ScriptedDevice) -> DeviceMarks:
    pool = EventPool(device.backend.new_event)
    device_marks = DeviceMarks(device.backend, pool, ignore, device.clock)
    device_marks.begin(device.now, OTHER)
    return device_marks


def hooked(watch: Watch, marks: DeviceMarks, device: ScriptedDevice, root: Any) -> Any:
    recorder = Recorder(watch.recorder.ring, Guard(), device.clock)
    mark_model(ModelMarks(recorder, marks), root)
    return root


def phases(marks: DeviceMarks) -> list[int]:
    """Buckets without repetitions."""
    buckets: list[int] = []
    for bucket in marks.open.buckets:
        if not buckets or buckets[-1] != bucket:
            buckets.append(bucket)
    return buckets


def test_a_module_without_hooks_of_its_own_gets_none(
    watch: Watch, marks: DeviceMarks, device: ScriptedDevice
) -> None:
    """A hook would keep it out of graphs, scripts and fused inference."""
    layer = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True)
    plain = torch.nn.Sequential(torch.nn.Linear(8, 8), layer)
    for root in (plain, ManagedList(torch.nn.Linear(8, 8), layer)):
        hooked(watch, marks, device, root)
        assert not any(
            module._forward_hooks or module._forward_pre_hooks
            for module in root.modules()
            if not isinstance(module, Managed)
        )


@pytest.mark.parametrize("recompute", [False, True])
def test_forward_and_backward_are_told_apart(
    watch: Watch, marks: DeviceMarks, device: ScriptedDevice, recompute: bool
) -> None:
    model = hooked(watch, marks, device, Net(device, recompute=recompute))
    loss = model(torch.ones(2, 4)).sum()
    device.host(10**6)
    loss.backward()
    assert phases(marks) == [OTHER, FORWARD, OTHER, BACKWARD, OTHER]
    assert marks.open.buckets.count(FORWARD) > 4


def test_a_forward_without_gradients_is_followed_by_no_backward(
    watch: Watch, marks: DeviceMarks, device: ScriptedDevice
) -> None:
    model = hooked(watch, marks, device, Net(device))
    with torch.no_grad():
        model(torch.ones(2, 4))
    assert phases(marks) == [OTHER, FORWARD, OTHER]


def test_a_backward_that_fails_ends_with_its_step(
    watch: Watch, marks: DeviceMarks, device: ScriptedDevice
) -> None:
    model = hooked(watch, marks, device, Net(device))

    def fail(_gradient: Any) -> None:
        raise ZeroDivisionError

    inputs = torch.ones(2, 4, requires_grad=True)
    inputs.register_hook(fail)
    with pytest.raises(ZeroDivisionError):
        model(inputs).sum().backward()
    assert phases(marks)[-1] == BACKWARD
    marks.end_step(device.now, 0, 10**8, OTHER)
    device.host(10**6)
    marks.back_to(device.now, OTHER)
    assert phases(marks) == [OTHER]


def test_gradients_are_the_same_bits(
    watch: Watch, marks: DeviceMarks, device: ScriptedDevice
) -> None:
    torch.manual_seed(0)
    plain = Net()
    watched = hooked(watch, marks, device, copy.deepcopy(plain))
    for model in (plain, watched):
        model(torch.ones(2, 4)).sum().backward()
    pairs = zip(plain.parameters(), watched.parameters(), strict=True)
    assert all(torch.equal(first.grad, second.grad) for first, second in pairs)


def test_a_copy_or_a_file_of_the_model_carries_no_hooks_that_act(
    watch: Watch, marks: DeviceMarks, device: ScriptedDevice
) -> None:
    model = hooked(watch, marks, device, ManagedList(Block(4, 4)))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    event_count = len(marks.open.events)
    for copied in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        copied(torch.ones(2, 4)).sum().backward()
    assert len(marks.open.events) == event_count


def test_a_compiled_model_is_one_graph(
    watch: Watch, marks: DeviceMarks, device: ScriptedDevice
) -> None:
    model = hooked(watch, marks, device, Net())
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    compiled(torch.ones(2, 4)).sum().backward()


@pytest.mark.matrix  # the first compiled backward of a process takes half a minute
@pytest.mark.filterwarnings("ignore")  # torch's own, of how it traces a graph
def test_a_compiled_backward_is_one_graph_with_the_same_bits(
    watch: Watch, marks: DeviceMarks, device: ScriptedDevice
) -> None:
    torch.manual_seed(0)
    plain = Net()
    watched = hooked(watch, marks, device, copy.deepcopy(plain))
    from torch._dynamo import compiled_autograd

    for model in (plain, watched):
        loss = model(torch.ones(2, 4)).sum()
        with compiled_autograd._enable(torch.compile(backend="eager", fullgraph=True)):
            loss.backward()
    pairs = zip(plain.parameters(), watched.parameters(), strict=True)
    assert all(torch.equal(first.grad, second.grad) for first, second in pairs)
    assert BACKWARD not in marks.open.buckets


@pytest.mark.parametrize("count", [0, 1, 8, 9, 12, 100])
def test_blocks_are_few_and_evenly_spaced(count: int) -> None:
    root = torch.nn.Module()
    root.short = torch.nn.Sequential(torch.nn.Identity())
    root.blocks = torch.nn.ModuleList(torch.nn.Identity() for _ in range(count))
    blocks = blocks_of(root)
    assert len(blocks) <= MOST_BLOCKS
    if count > 1:
        assert blocks[0] is root.blocks[0]
        assert len(blocks) >= min(count, MOST_BLOCKS) / 2 + 1
