"""What an agent answers over HTTP."""
