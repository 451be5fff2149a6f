"""Alerts on stepwatch itself: the monitoring must be monitored."""
