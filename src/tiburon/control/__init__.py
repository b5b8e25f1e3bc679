"""Controllers, reference paths, thruster allocation and sensors."""
