"""The collector process: the evaluation loop over jobs."""
