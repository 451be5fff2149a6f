"""The plan of one program run, passed in one environment variable."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

VARIABLE = "TRAINERS_PLAN"
SLOW_RANK, SLOW_LOADER = "slow-rank", "slow-loader"


@dataclass(frozen=True)
class Plan:
    """One run. Seconds are host time; `*_every` count steps, 0 is never.

    `adapter` is the program's own use of stepwatch: `lines` for the README's lines, `callback` for
    its framework's adapter, empty for none. From `fault_step` on, the last rank's forward or loader
    (`fault`) takes `fault_seconds` longer.
    """

    job: str
    folder: str
    world: int = 2
    steps: int = 40
    adapter: str = ""
    axis: str = ""
    """The dimension that picotron's ranks divide: dp, tp or pp."""
    compiled: str = ""
    """The backend of `torch.compile`, if the model is compiled."""
    forward_seconds: float = 0.03
    data_seconds: float = 0.005
    eval_every: int = 0
    save_every: int = 0
    pause_seconds: float = 10.0
    """Duration of each evaluation and each save."""
    fault: str = ""
    fault_step: int = 30
    fault_seconds: float = 0.15
    journal: bool = False
    """Whether ranks note numbers, evaluations and saves at once: a killed rank has no diary."""
    resume_step: int = 0
    """The step of the checkpoint to resume from, in the same folder; 0 begins anew."""

    def variable(self) -> dict[str, str]:
        """The environment variable that hands it over."""
        return {VARIABLE: json.dumps(asdict(self))}

    def diary(self, rank: int) -> Path:
        """Return the path of a rank's diary."""
        return Path(self.folder, f"rank-{rank}.json")

    def journal_file(self, rank: int) -> Path:
        """Return the path of a rank's journal; a resumed run has its own."""
        return Path(self.folder, f"journal-{self.resume_step}-{rank}.jsonl")

    @property
    def trigger_file(self) -> Path:
        """File that appears when the fault begins."""
        return Path(self.folder, "triggered")


def read_plan() -> Plan:
    """The plan of this process."""
    return Plan(**json.loads(os.environ[VARIABLE]))
