"""Training data: source text, shards with a manifest, sequence order, batches."""
