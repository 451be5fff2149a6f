"""One module per verb: `HELP`, `EXAMPLE`, `add_arguments(parser)` and `run(arguments) -> int`."""
