"""Derive the job's name from a command line: its script's or its module's name.

The value of a launcher's option is not the script, so this module lists the options without a value
for each launcher. Sources: python(1), and the argument parsers of torch 2.13
(`torch.distributed.run`), Accelerate 1.15 (`commands/launch.py`) and DeepSpeed 0.18
(`launcher/runner.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath

from stepwatch.signals import places

PYTHON, TORCHRUN, ACCELERATE, DEEPSPEED = "python", "torchrun", "accelerate", "deepspeed"
_LAUNCHER = re.compile(r"(python|torchrun|accelerate|deepspeed)[0-9.]*(-launch)?(\.exe)?")
_LAUNCHER_MODULES = {
    "torch.distributed.run": TORCHRUN,
    "torch.distributed.launch": TORCHRUN,
    "accelerate.commands.launch": ACCELERATE,
    "deepspeed": DEEPSPEED,
    "deepspeed.launcher.runner": DEEPSPEED,
}
_WITH_VALUE_OF_PYTHON = ("-W", "-X", "--check-hash-based-pycs")
_WITHOUT_VALUE = {
    TORCHRUN: {"--standalone", "--no-python", "--run-path", "--virtual-local-rank"},
    ACCELERATE: {
        "launch", "-q", "--quiet", "--cpu", "--multi-gpu", "--tpu", "--enable-cpu-affinity",
        "--dynamo-use-fullgraph", "--dynamo-use-dynamic", "--dynamo-use-regional-compilation",
        "--use-deepspeed", "--use-fsdp", "--use-parallelism-config", "--use-megatron-lm",
        "--same-network", "--no-python", "--tpu-cluster", "--tpu-use-sudo", "--downcast-bf16",
        "--fp8-use-autocast-during-eval", "--debug",
    },
    DEEPSPEED: {
        "--no-python", "--no-local-rank", "--no-ssh", "--no-ssh-check", "--force-multi",
        "--save-pid", "--elastic-training", "--bind-cores-to-rank",
    },
}  # fmt: skip
_MODULE_FOLLOWS = ("-m", "--module")


def job_name(command: Sequence[str]) -> str:
    """Return the script's or module's name in `command`, else the command's, as a valid job name.

    `torchrun -m pkg.train` is `pkg.train`, `python -O train.py --data x.py` is `train`.
    """
    target = _started_by(command) or next(
        (PurePath(word).stem for word in command if word.endswith((".py", ".sh"))),
        PurePath(command[0]).stem,
    )
    name = re.sub(r"[^A-Za-z0-9._-]", "-", target.removesuffix(".__main__"))
    return name.lstrip("._-")[: places.NAME_LIMIT] or "default"


def _started_by(command: Sequence[str]) -> str:
    """Return the target of the first Python or launcher in `command`; empty without one."""
    for index, word in enumerate(command):
        launcher = _LAUNCHER.fullmatch(PurePath(word).name)
        if launcher is not None:
            return _target(launcher[1], command[index + 1 :])
    return ""


def _target(launcher: str, words: Sequence[str]) -> str:
    return _target_of_python(words) if launcher == PYTHON else _target_of(launcher, words)


def _target_of_python(words: Sequence[str]) -> str:
    arguments = list(words)
    while arguments:
        word = arguments.pop(0)
        if word == "-c" or (word == "-m" and not arguments):
            return ""
        if word == "-m":
            module = arguments.pop(0)
            launcher = _LAUNCHER_MODULES.get(module)
            return module if launcher is None else _target(launcher, arguments)
        if word in _WITH_VALUE_OF_PYTHON:
            del arguments[:1]
        elif not word.startswith("-"):
            return _script([word, *arguments])
    return ""


def _target_of(launcher: str, words: Sequence[str]) -> str:
    arguments, is_module = list(words), False
    while arguments:
        word = arguments.pop(0)
        if word in _MODULE_FOLLOWS:
            is_module = True
        elif word.replace("_", "-") in _WITHOUT_VALUE[launcher]:
            continue
        elif word.startswith("-") and word != "--":
            # An unknown option may have no value; a script or another option is never its value.
            if "=" not in word and arguments and not _is_no_value(arguments[0]):
                del arguments[0]
        elif word != "--":
            return word if is_module else _script([word, *arguments])
    return ""


def _is_no_value(word: str) -> bool:
    return word.startswith("-") or word.endswith(".py")


def _script(words: Sequence[str]) -> str:
    """Return the stem of the script in `words[0]`, or the target if `words[0]` is a launcher."""
    launcher = _LAUNCHER.fullmatch(PurePath(words[0]).name)
    return PurePath(words[0]).stem if launcher is None else _target(launcher[1], words[1:])
