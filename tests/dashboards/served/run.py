"""A fleet on this machine for dashboards to show: collector, agent, Prometheus, and four jobs.

`llama` is the reference trainer on four ranks, with checkpoints and a rank that becomes slow;
`pretrain` has sixteen simulated ranks; `trial-7` is a trainer on two ranks, which die; `warm-up` is
one rank that dies, restarts and finishes. The node's devices have a scripted driver; all else is
real. Traces go to a receiver in this process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from stepwatch.signals import places
from tests.agent.probes.gpm.test_gpm import HOPPER
from tests.agent.probes.nvml import scripted
from tests.agent.traces.receiver import receiver
from tests.dashboards.served.grafana import Source
from tests.drill.chain.servers import Servers
from tests.ports import free_port
from tests.services import ROOT, Services
from tests.soak.processes import CLI, end, spawn
from tests.waiting import until

JOB, SIMULATED, FAILED, BRIEF = "llama", "pretrain", "trial-7", "warm-up"
PROJECT = "assistant"
"""Project of `llama`; the other jobs have none."""
RANKS = 4
_RATES = 'currency = "USD"\n[[rate]]\nfrom = 2020-01-01\ndevice_hour = 2.10\n'
_LITTLE = ("--data-bytes", "1048576", "--length", "32", "--steps", "100000")
"""Little to compute: the run shares a machine with its servers."""
_PACE_SECONDS = 0.4
"""Each step waits that long for its data: the trainer would take all processors otherwise."""
SLOW_FROM = 30


class Fleet:
    """All processes, from the beginning to the end of a `with` block."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        scripted.build(folder)
        self.driver = scripted.Driver(folder / "driver", devices=2)
        for device in self.driver.devices:
            device.update(HOPPER, mig=0)
        self.driver.write()
        (folder / "rates.toml").write_text(_RATES)
        port = free_port()
        self._closed_at_end = ExitStack()
        self.traces = self._closed_at_end.enter_context(receiver())
        self._services = Services(
            folder,
            folder / "rings",
            [str(ROOT), *sys.path],
            options=["--rates", str(folder / "rates.toml")],
            agent_options=[
                "--port",
                str(port),
                "--kernel-log",
                "/dev/null",
                "--node",
                "node-0",
                "--otlp",
                self.traces.url,
                "--trace-every",
                "10",
            ],
            environ={
                "LD_LIBRARY_PATH": str(folder),
                scripted.ENV_SCRIPT: str(folder / "driver"),
            },
        )
        addresses = {
            "collector": [self._services.url.removeprefix("http://")],
            "agent": [f"127.0.0.1:{port}"],
        }
        self._servers = Servers(folder, addresses)
        self._jobs: list[subprocess.Popen[bytes]] = []
        self.source = Source(self._servers.prometheus)

    def __enter__(self) -> Self:
        try:
            self._services.start()
            self._servers.start_prometheus()
            self._simulate()
            self._train(JOB, "production", *self._faults(), "--checkpoint-every", "10")
            failed = ("--mesh", "dp_shard=2", "--fault", "kill:rank=0,step=5")
            self._train(FAILED, "trial", *failed)
            brief = ("--steps", "12", "--checkpoint-every", "4", "--restarts", "1")
            self._train(
                BRIEF, "trial", "--mesh", "dp_shard=1", "--fault", "kill:rank=0,step=6", *brief
            )
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._close()

    def _close(self) -> None:
        self.source.close()
        for process in self._jobs:
            end(process, 15, 15.0)
        self._servers.close()
        self._services.close()
        self._closed_at_end.close()

    def wait(self) -> None:
        """Until every part of the story was scraped; the last is that the node gets a fault."""
        for title, expr in (
            ("rates", f'rate(stepwatch_phase_seconds_total{{job_name="{JOB}"}}[20s])'),
            ("devices", "stepwatch_node_device_busy_ratio"),
            ("coverage", f'stepwatch_job_telemetry_coverage_ratio{{job_name="{JOB}"}}'),
            ("a checkpoint", f'stepwatch_checkpoint_verified_step{{job_name="{JOB}"}}'),
            ("device-time", f'stepwatch_job_cost{{job_name="{JOB}"}}'),
            ("a failure", f'stepwatch_job_seconds_since_failure{{job_name="{FAILED}"}}'),
            ("a job that came back", f'stepwatch_job_recovery_seconds{{job_name="{BRIEF}"}}'),
            ("its end", f'stepwatch_job_duration_seconds{{job_name="{BRIEF}"}}'),
            ("traces", f'rate(stepwatch_agent_traced_steps_total{{job_name="{JOB}"}}[20s]) > 0'),
            ("a straggler", f'stepwatch_straggler_rank{{job_name="{JOB}"}}'),
        ):
            self._wait_for(title, expr)
        self._break_a_link()
        self._wait_for("a fault of the node", "stepwatch_node_facts")

    def _wait_for(self, title: str, expr: str) -> None:
        until(title, lambda: bool(self.has(expr)), 240.0)

    def has(self, expr: str) -> bool:
        """Return whether Prometheus has an answer now."""
        return bool(self.source.ask(expr, True, time.time())[1])

    def _break_a_link(self) -> None:
        """Take one NVLink of device 1 down, and let the device run hot."""
        self.driver.devices[1].update({"link1": 0, "temperature": 88})
        self.driver.write()

    def _simulate(self) -> None:
        words = ("--ranks", "16", "--step-seconds", "0.5", "--seconds", "3600")
        self._jobs.append(
            spawn(
                self.folder / "simulate.log", *CLI, "simulate", "--job", SIMULATED,
                "--collector", self._services.url, *words,
            )
        )  # fmt: skip

    def _faults(self) -> list[str]:
        paced = [f"slow-data:rank={rank},step=0,seconds={_PACE_SECONDS}" for rank in range(RANKS)]
        slow = f"slow-compute:rank=2,step={SLOW_FROM},seconds=0.2"
        return [word for fault in (*paced, slow) for word in ("--fault", fault)]

    def _train(self, job: str, job_class: str, *words: str) -> None:
        environ = {
            **self._services.environ,
            places.ENV_JOB_CLASS: job_class,
            "STEPWATCH_NODE": "node-0",
            **({places.ENV_PROJECT: PROJECT} if job == JOB else {}),
        }
        quoted = [f"{name}={value}" for name, value in environ.items() if name not in os.environ
                  or os.environ[name] != value]  # fmt: skip
        run = self.folder / job
        self._jobs.append(
            spawn(
                self.folder / f"{job}.log", "env", *quoted, *CLI, "train", "--job", job,
                "--run-dir", str(run), *_LITTLE, *words,
            )
        )  # fmt: skip
