"""Times a rank's steps on its device: events on the compute stream, read late, never awaited.

`backend` finds the device. `boundaries` records events where the host's timeline changes bucket.
`anchor` maps the device's clock to the host's. `spans` turns positions into durations. `resolver`
does this for steps that the device has passed. `timeline` and `timing` use all of them.
"""
