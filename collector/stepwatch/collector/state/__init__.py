"""What is known of each job, folded from records."""
