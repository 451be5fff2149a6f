"""Checks that need a real GPU and run one after another; see measured/gpu.md."""
