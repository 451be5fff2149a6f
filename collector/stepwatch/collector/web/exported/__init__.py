"""Metrics of jobs as prometheus-client families."""
