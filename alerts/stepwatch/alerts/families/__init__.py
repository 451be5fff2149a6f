"""Alerts on jobs, one file per alert or alert family."""
