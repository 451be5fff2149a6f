"""The drill's site file: receivers, routes, and hours without pages."""

from __future__ import annotations

import time
from typing import Any

from tests.drill.faults import CANARY, PAGE, TICKET

from .pager import DEAD_MAN

CANARY_JOB, MAINTAINED_JOB, SILENCED_JOB = "drill-canary", "drill-maintained", "drill-silenced"
HEARTBEAT_SECONDS = 30
_WINDOW_SECONDS = 6 * 3600


def site_document(pager: str) -> dict[str, Any]:
    """Return its content; a window around now suppresses one job's pages."""
    receivers = {
        name: {"webhook": {"url": f"{pager}/{name}", "without_secret": True}}
        for name in (PAGE, TICKET, CANARY, DEAD_MAN)
    }
    return {
        "alerting": {
            "receivers": receivers,
            "default": {"page": PAGE, "ticket": TICKET},
            "dead_man": {"receiver": DEAD_MAN, "every": f"{HEARTBEAT_SECONDS}s"},
            "schedules": {"window": {"times": [_around_now()]}},
            "routes": [
                {"jobs": [CANARY_JOB], "page": CANARY},
                {"jobs": [MAINTAINED_JOB], "page": PAGE, "mute_pages": ["window"]},
            ],
        }
    }


def _around_now() -> dict[str, Any]:
    begins, ends = (
        time.strftime("%H:%M", time.gmtime(time.time() + offset_s))
        for offset_s in (-600, _WINDOW_SECONDS)
    )
    return {"from": begins, "until": ends}
