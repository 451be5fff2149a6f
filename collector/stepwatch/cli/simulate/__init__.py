"""A training fleet from one process: what the agents of a real run would send, with known faults.

`plan` says what runs, `steps` how long each rank works and waits, `clocks` what the clocks of the
nodes show, `records` and `states` turn that into rows, `fleet` into segments at the moments at
which agents flush, `outbox` and `run` send them, `report` says what became of them.
"""
