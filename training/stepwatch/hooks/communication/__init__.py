"""Numbers of process groups, waits of streams, and microbatch samples."""
