"""SLIs over a whole run so far: a registry of files, each with one SLI or a family."""
