"""Times the steps of a rank on its device: events on the compute stream, read late, never awaited.

`backend` finds the device, `boundaries` records events where the host's timeline changes bucket,
`anchor` says where the device's clock lies on the host's, `spans` makes durations of positions,
`resolver` does so for steps that the device has passed, `timeline` and `timing` put it to work.
"""
