"""Contact between bodies: where shapes touch, and what contacts do to motion."""
