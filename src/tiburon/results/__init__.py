"""What a run leaves: trajectory, dataset, store, checkpoint, replay, export."""
