"""The last lines that a rank writes to stderr, kept beside its ring for when it has ended.

`keeping` puts a relay between a process and its stderr, `relay` is that process, `lines` makes
lines of its bytes, `kept` is the file. Importing them must stay cheap, and needs no numpy: every
rank under `stepwatch run` does so before anything else.
"""
