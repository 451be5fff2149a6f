"""Where the time of the newest steps goes: by part, and by rank."""
