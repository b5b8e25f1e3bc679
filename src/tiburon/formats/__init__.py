"""Readers and writers of robot files, one file per format and direction."""
