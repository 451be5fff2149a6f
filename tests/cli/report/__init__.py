"""What `stepwatch report` prints."""
