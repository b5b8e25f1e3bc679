"""Published tables and values beside computed ones, with verdicts."""
