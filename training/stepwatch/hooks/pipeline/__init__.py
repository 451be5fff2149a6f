"""Pipeline schedules: stage work, microbatch samples, and the ideal bubble."""
