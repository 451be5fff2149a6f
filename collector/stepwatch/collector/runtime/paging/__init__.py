"""Paging without Prometheus: who is paged, in which form, and what is not sent after all."""
