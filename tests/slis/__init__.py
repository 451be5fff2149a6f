"""Each SLI on a real run with the fault that moves it, beside what the trainer's own files say."""
