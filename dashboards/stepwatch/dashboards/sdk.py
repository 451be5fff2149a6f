"""The parts of grafana-foundation-sdk that the dashboards use, imported in one place.

Trap: importing the builders for schema v1 warns that schema v2 exists. Every Grafana since 10 reads
v1, so the warning is silenced here, and only here.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import common as common_builders
    from grafana_foundation_sdk.builders import dashboard as builders
    from grafana_foundation_sdk.builders import heatmap, prometheus, stat, table, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common, dashboard
    from grafana_foundation_sdk.models import heatmap as heatmap_models
    from grafana_foundation_sdk.models import prometheus as prometheus_models

__all__ = [
    "JSONEncoder",
    "builders",
    "common",
    "common_builders",
    "dashboard",
    "heatmap",
    "heatmap_models",
    "prometheus",
    "prometheus_models",
    "stat",
    "table",
    "timeseries",
]
