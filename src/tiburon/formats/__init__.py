"""Robot files to models and back, one file or a few per format."""
