"""Speed of a job, and its obstacles."""
