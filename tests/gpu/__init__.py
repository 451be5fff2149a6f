"""What only a real GPU can show, as checks that run one after the other; see measured/gpu.md."""
