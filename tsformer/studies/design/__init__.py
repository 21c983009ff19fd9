"""What a study asks for: its trials, the keys they are found by, and the files that describe it."""
