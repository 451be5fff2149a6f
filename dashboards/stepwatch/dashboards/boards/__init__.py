"""One module a dashboard; each has `FILE` and `build`, and the registry finds it."""
