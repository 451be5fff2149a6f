"""A simulated asynchronous accelerator: test equipment; see README.md. Nothing of it ships."""
