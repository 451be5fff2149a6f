"""The decoder that is trained: layers, initial weights, optimizer and learning rate."""
