"""Evidence accumulated on ranks: which are slow beyond chance, and their cost."""
