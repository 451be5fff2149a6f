"""Pipeline schedules: work of stages, samples of microbatches, and the ideal bubble."""
