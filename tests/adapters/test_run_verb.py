"""`stepwatch run` as a process: options that it passes on, processes that it leaves alone,
output."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from stepwatch.cli.main import main
from stepwatch.cli.verbs.run import Options, hooked, page_line
from stepwatch.hooks.auto import SITE_DIR
from stepwatch.hooks.auto.router import may_record
from stepwatch.signals import presence
from stepwatch.signals.blackbox import RingReader, find_rings
from stepwatch.signals.errors import ConfigurationError
from stepwatch.signals.presence import CONNECTED, Presence
from stepwatch.signals.records import Kind

from .conftest import RUN, Launch

PYTHON = [*RUN, "--", sys.executable, "-c"]
TRAIN = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_the_commands_own(launch: Launch, code: int) -> None:
    ended = launch(*PYTHON, f"import sys; print('out'); sys.exit({code})")
    assert (ended.returncode, ended.stdout) == (code, "out\n")
    line = "stepwatch: job python: no step was recorded: the command did not import torch"
    assert ended.stderr.startswith(line) and ended.stderr.count("\n") == 1
    assert launch(*PYTHON, "", STEPWATCH_QUIET="1").stderr == ""


def test_the_page_is_told_before_the_command_has_imported_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STEPWATCH_RING_DIR", str(tmp_path))
    environ = hooked({}, ["python", "train.py"], Options())
    assert page_line(environ) == "", "no agent runs"
    now = time.monotonic_ns()
    presence.write(tmp_path, Presence(1, "", "http://head:8480", CONNECTED, now, {}))
    assert page_line(environ) == "stepwatch: job train; page: http://head:8480/jobs/train"
    assert page_line({**environ, "STEPWATCH_QUIET": "1"}) == ""
    presence.write(tmp_path, Presence(1, "", "http://head:8480", CONNECTED, now - 10**11, {}))
    assert page_line(environ) == "", "an agent of long ago"


def test_a_signal_reaches_the_command(launch: Launch) -> None:
    ended = launch(*PYTHON, "import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert ended.returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no command; for example: stepwatch run"),
        (["--"], "no command"),
        (["--", "/no/such/command"], "cannot start '/no/such/command': No such file"),
        (["--jobs", "a"], "unrecognized arguments: --jobs; did you mean '--job'?"),
    ],
)
def test_wrong_use_is_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words]) == 2
    printed = capsys.readouterr().err
    assert message in printed and printed.count("\n") == 1


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--help"])
    assert "example: stepwatch run --job llama-7b -- torchrun" in capsys.readouterr().out


def test_the_environment_is_the_users_plus_ours() -> None:
    user_environ = {"PYTHONPATH": "/mine", "A": "b"}
    environ = hooked(user_environ, ["x.py"], Options(job_class="research"))
    assert environ["PYTHONPATH"] == f"{SITE_DIR}:/mine"
    assert (environ["STEPWATCH_JOB"], environ["STEPWATCH_JOB_CLASS"], environ["A"]) == (
        "x",
        "research",
        "b",
    )
    assert user_environ == {"PYTHONPATH": "/mine", "A": "b"}
    assert hooked({"STEPWATCH_JOB": "set"}, ["x.py"], Options())["STEPWATCH_JOB"] == "set"
    assert hooked({"STEPWATCH_DISABLE": "1"}, ["x.py"], Options("j")) == {"STEPWATCH_DISABLE": "1"}
    with pytest.raises(ConfigurationError, match="job name"):
        hooked({}, ["x.py"], Options("../up"))


def test_a_mesh_is_handed_on_and_checked_before_anything_starts() -> None:
    assert hooked({}, ["x.py"], Options(mesh="pp=2,dp=4"))["STEPWATCH_MESH"] == "pp=2,dp=4"
    with pytest.raises(ConfigurationError, match="for example pp=2,dp=4"):
        hooked({"STEPWATCH_MESH": "2x4"}, ["x.py"], Options())


def test_without_torch_nothing_of_stepwatch_is_imported(launch: Launch, tmp_path: Path) -> None:
    program = """
import sys, threading
print(any(name.split(".")[0] in ("stepwatch", "numpy", "torch") for name in sys.modules),
      threading.active_count(), sys.path[1] if "auto/site" in sys.path[1] else "")
"""
    assert launch(*PYTHON, program).stdout == "False 1 \n"
    assert launch(*PYTHON, program, RANK="0", WORLD_SIZE="1").stdout == "False 1 \n"


def test_the_users_own_sitecustomize_runs(launch: Launch, tmp_path: Path) -> None:
    user_folder = tmp_path / "mine"
    user_folder.mkdir()
    (user_folder / "sitecustomize.py").write_text("import sys; sys.mine = __name__")
    program = "import sys, sitecustomize; print(sys.mine, sitecustomize.__file__)"
    paths = f"{user_folder}:{':'.join(filter(None, sys.path))}"
    ended = launch(*PYTHON, program, PYTHONPATH=paths)
    assert ended.stdout.split() == ["sitecustomize", str(user_folder / "sitecustomize.py")]
    (user_folder / "sitecustomize.py").write_text("import no_such_module")
    ended = launch(*PYTHON, "print('goes on')", PYTHONPATH=paths)
    assert ended.stdout == "goes on\n" and "no_such_module" in ended.stderr


def test_a_python_without_stepwatch_says_so_and_trains(launch: Launch) -> None:
    code = "import sys; sys.modules['stepwatch'] = None\nimport torch; print('trains')"
    pytest.importorskip("torch", reason="the program imports torch")
    ended = launch(*PYTHON, code)
    assert ended.stdout == "trains\n"
    (line,) = [line for line in ended.stderr.splitlines() if "stepwatch:" in line]
    assert line.startswith("stepwatch: not watching: ") and sys.executable in line


def test_a_single_process_is_watched_and_its_helpers_are_not(launch: Launch, rings: Path) -> None:
    pytest.importorskip("torch", reason="the program trains with torch")
    program = (
        TRAIN
        + """
import importlib.util, multiprocessing, os, subprocess, sys, threading
assert importlib.util.find_spec("torch") is not None
print("threads before", threading.active_count())
step()
child = os.fork()
if child == 0:
    step()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
for method in ("fork", "spawn"):
    worker = multiprocessing.get_context(method).Process(target=step if method == "fork" else print)
    worker.start(); worker.join()
    assert worker.exitcode == 0
helper = "import torch\\nw = torch.ones(2, requires_grad=True)\\nw.sum().backward()"
subprocess.run([sys.executable, "-c", helper], check=True)
step()
"""
    )
    ended = launch(*RUN, "--job", "one", "--", sys.executable, "-W", "error", "-c", program)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("threads before 1\n")
    (path,) = find_rings(rings)
    reader = RingReader(path)
    rows = reader.read().rows
    assert rows[Kind.STEP]["step"].tolist() == [0, 1]
    assert (reader.identity.job, reader.identity.world) == ("one", 1)
    assert reader.hook_errors == 0 and reader.closed
    reader.close()


def test_a_script_that_only_evaluates_leaves_no_ring(launch: Launch, rings: Path) -> None:
    pytest.importorskip("torch", reason="the program uses torch")
    program = """
import torch, threading
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 2)))
model = torch.nn.Linear(2, 2).eval()
with torch.no_grad():
    for (batch,) in loader:
        model(batch)
print(threading.active_count())
"""
    ended = launch(*PYTHON, program, RANK="0", WORLD_SIZE="1")
    assert (ended.returncode, ended.stdout) == (0, "1\n"), ended.stderr
    assert "no step was recorded: no process called backward or stepped" in ended.stderr
    assert not list(find_rings(rings))


@pytest.mark.parametrize(
    ("environ", "answer"),
    [
        ({}, True),
        ({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3"}, True),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2", "LOCAL_RANK": "1"}, True),
        ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, True),
        ({"LOCAL_RANK": "1"}, False),
        ({"RANK": "0", "WORLD_SIZE": "1", "OWNER": "1"}, False),
        ({"OWNER": str(os.getpid())}, True),
    ],
)
def test_ranks_of_any_launcher_record_and_children_of_ranks_do_not(
    environ: dict[str, str], answer: bool
) -> None:
    assert may_record(environ, "OWNER") is answer
