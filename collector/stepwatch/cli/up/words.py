"""Messages that `stepwatch up` prints when it is ready and when it stops."""

from __future__ import annotations

from stepwatch.cli.up.plan import Plan
from stepwatch.cli.up.ports import HOST
from stepwatch.signals import places


def first_text(plan: Plan) -> str:
    """Return the page's address, which is known before anything has started."""
    return f"page: {plan.url} (it answers in some seconds)"


def ready_text(plan: Plan) -> str:
    """Return paths and addresses, the next commands, and the Prometheus scrape configuration."""
    targets = ", ".join(f'"{HOST}:{port}"' for port in (plan.port, plan.agent_port))
    return "\n".join(
        [
            "agent, collector and page run on this machine",
            "",
            f"  page   {plan.url}",
            f"  rings  {plan.rings}",
            f"  data   {plan.folder}  (store.db, spool, logs)",
            "",
            "Train, and ask, in another terminal:",
            "",
            f"  {_rings(plan)}stepwatch run -- python train.py",
            f"  {_collector(plan)}stepwatch status",
            "",
            "Prometheus scrapes both with:",
            "",
            "  scrape_configs:",
            "    - job_name: stepwatch",
            "      static_configs:",
            f"        - targets: [{targets}]",
            "",
            "Events follow, a line each. Ctrl-C stops everything and keeps the store.",
        ]
    )


def stopped_text(plan: Plan) -> str:
    """Return the remaining store, and the command that reads it."""
    return f"stopped; the store stays: stepwatch status --all --store {plan.store}"


def _collector(plan: Plan) -> str:
    """Return the environment in which verbs find the collector."""
    usual = plan.port == places.DEFAULT_COLLECTOR_PORT
    return "" if usual else f"{places.ENV_COLLECTOR}={plan.url} "


def _rings(plan: Plan) -> str:
    """Return the environment in which a run writes its rings to the agent's directory."""
    rings = plan.rings
    return "" if rings == places.DEFAULT_RING_DIR else f"{places.ENV_RING_DIR}={rings} "
