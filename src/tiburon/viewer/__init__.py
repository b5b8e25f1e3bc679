"""Pictures of given data: plots and pages; nothing here runs a robot."""
