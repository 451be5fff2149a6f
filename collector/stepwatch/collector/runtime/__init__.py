"""The collector as a process: evaluation of jobs in a loop."""
