"""Each SLI on a real run with the fault that moves it, compared with the trainer's own files."""
