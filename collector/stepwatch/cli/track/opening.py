"""Opens the run that the command line names, with the tracker's own library."""

from __future__ import annotations

from stepwatch.signals.errors import ConfigurationError, UsageError

from .target import Target

KINDS = ("tensorboard", "mlflow", "wandb")
FORMS = "tensorboard:DIR, mlflow:RUN_ID or wandb:ENTITY/PROJECT/RUN"


def open_target(words: str) -> Target:
    """Open the run that `words` name.

    Raises:
        UsageError: they name no run.
        TargetError: the tracker does not answer.
        ConfigurationError: the tracker's library is missing.
    """
    kind, _, place = words.partition(":")
    if kind not in KINDS or not place:
        raise UsageError(f"--to {words[:80]!r}: write {FORMS}")
    try:
        return _opened(kind, place)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"--to {kind}: needs the package {error.name!r}: pip install 'stepwatch[{kind}]'"
        ) from error


def _opened(kind: str, place: str) -> Target:
    if kind == "tensorboard":
        from .into_tensorboard import TensorBoard

        return TensorBoard(place)
    if kind == "mlflow":
        from .into_mlflow import Mlflow

        return Mlflow(place)
    from .into_wandb import Wandb

    return Wandb(place)
