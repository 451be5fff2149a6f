"""The checkpoint verifier: good and damaged checkpoints in all layouts."""
