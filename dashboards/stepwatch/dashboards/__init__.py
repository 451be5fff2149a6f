"""Grafana dashboards, built from the shared names; `stepwatch build dashboards` writes them."""
