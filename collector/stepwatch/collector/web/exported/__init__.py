"""Job metrics as prometheus-client families."""
