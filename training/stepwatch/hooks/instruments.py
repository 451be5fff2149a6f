"""The parts of one rank's hooks that write their own records."""

from __future__ import annotations

from .checkpoints import CheckpointQueue
from .communication.groups import GroupNumbers
from .communication.microbatches import MicrobatchSamples
from .communication.stream_waits import StreamWaits
from .device.timing import DeviceTiming
from .device_memory import DeviceMemory
from .metrics.learning_rates import LearningRates
from .metrics.metrics import Metrics
from .models.forward_backward import ForwardBackward
from .numerics.digests import Digests
from .numerics.late_records import LateRecords
from .numerics.non_finite import Numerics
from .numerics.replica_updates import ReplicaUpdates
from .pauses.pauses import Pauses
from .profiles.profiler import StepProfiler
from .recorder.recorder import Recorder


class Instruments:
    """Everything that hooks on collectives, models and schedules need: recorder and writers."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.guard = recorder.guard
        self.device = DeviceTiming(recorder)
        self.groups = GroupNumbers(recorder)
        self.waits = StreamWaits(recorder, self.device, self.groups)
        self.numerics = Numerics(recorder)
        self.late = LateRecords(recorder)
        self.metrics = Metrics(recorder, self.late)
        self.learning_rates = LearningRates(self.metrics)
        self.replica_updates = ReplicaUpdates()
        self.digests = Digests(recorder, self.groups, self.replica_updates)
        self.memory = DeviceMemory(recorder)
        self.microbatches = MicrobatchSamples(recorder)
        self.checkpoints = CheckpointQueue(recorder)
        self.pauses = Pauses(recorder, self.checkpoints)
        self.profiles = StepProfiler(recorder)
        self.phases = ForwardBackward(recorder, self.pauses.evaluation)
