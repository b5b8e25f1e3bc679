"""What decides commands, and what it decides from: controllers, paths, allocation, sensors."""
