"""Training data: source text, shards with a manifest, and the order in which ranks read them."""
