"""The `stepwatch` command: one verb per file, imported when it is called."""
