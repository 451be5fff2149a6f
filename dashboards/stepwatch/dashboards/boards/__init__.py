"""One module per dashboard; each has `FILE` and `build`, and the registry finds it."""
