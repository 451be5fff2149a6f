"""The trained decoder: layers, initial weights, optimizer and learning rate."""
