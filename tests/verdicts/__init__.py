"""The verdict benchmark: real runs with and without faults, and what stepwatch says of each."""
