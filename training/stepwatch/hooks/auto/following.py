"""This process's router, and the two ways to start recording through it."""

from __future__ import annotations

from stepwatch.hooks.watch import Watch

from .losses import Losses
from .observer import LoopObserver
from .patches import install
from .router import Router

_router: Router | None = None


def router() -> Router:
    """Return this process's router; the first call replaces the watched functions in torch."""
    global _router
    if _router is None:
        _router = Router()
        install(_router)
    return _router


def follow(watch: Watch, *, boundaries: bool = True) -> LoopObserver | None:
    """Record torch's calls into `watch`; call it in the training thread.

    `boundaries`: an optimizer's step ends the step. Returns None if `watch` is disabled.
    """
    if not watch.enabled:
        return None
    return router().lead_to(watch, boundaries=boundaries)


def begin_unasked(owner: str) -> None:
    """Watch this process once it trains; `owner` names a variable for its children to read."""
    router().wait_for_training(owner)
    Losses(router()).start()
