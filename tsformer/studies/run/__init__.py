"""Running a study: its trials, wherever they are executed, each of them once."""
