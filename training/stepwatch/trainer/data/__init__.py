"""Training data: source text, shards with a manifest, the order of sequences, batches."""
