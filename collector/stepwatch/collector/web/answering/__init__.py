"""How answers are sent: with tags for readers that have them, and compressed."""
