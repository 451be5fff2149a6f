"""Paging without Prometheus: receivers, message formats, and suppression."""
