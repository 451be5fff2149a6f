"""What a store that does not answer, lost its file or is damaged leads to."""
