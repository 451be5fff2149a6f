"""Values over OTLP/HTTP: the points, their sending and the bounds on a receiver's answer.

`points` needs no SDK; `sending`, `resource` and `session` need the extra `traces`.
"""
