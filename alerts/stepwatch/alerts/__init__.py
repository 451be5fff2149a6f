"""Prometheus alert rules and their promtool tests; `stepwatch build alerts` writes them."""
