"""The last lines that a rank writes to stderr, kept beside its ring for use after its end.

`keeping` puts a relay between a process and its stderr, `relay` is that process, `lines` turns its
bytes into lines, `kept` is the file. Importing them must stay cheap, and needs no numpy: every rank
under `stepwatch run` does so before anything else.
"""
