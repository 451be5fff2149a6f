"""What accumulated evidence says of ranks: which are slow beyond chance, and at what cost."""
