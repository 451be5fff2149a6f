"""What `stepwatch store` does: one module for each idea."""
