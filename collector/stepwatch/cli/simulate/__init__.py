"""A training fleet from one process: the segments that real agents would send, with known faults.

`plan` defines the run, `steps` the work and wait times on each rank, `clocks` the nodes' clocks.
`rows` makes records from any course of steps, `records` and `states` those of the fleet, and
`fleet` their segments at the agents' flush times. `outbox` and `run` send the segments, `report`
describes the result.
"""
