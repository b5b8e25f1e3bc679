"""What can be checked on a very robot: conservation, agreement, derivatives, plausible numbers."""
