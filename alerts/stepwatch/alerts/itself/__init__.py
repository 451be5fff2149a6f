"""Alerts on stepwatch itself: what watches the jobs must be watched, too."""
