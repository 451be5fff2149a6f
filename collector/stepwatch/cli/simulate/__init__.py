"""A training fleet from one process: the segments that real agents would send, with known faults.

`plan` defines the run, `steps` the work and wait times on each rank, `clocks` the nodes' clocks.
`records` and `states` turn these into rows, and `fleet` into segments at the agents' flush times.
`outbox` and `run` send the segments, `report` describes the result.
"""
