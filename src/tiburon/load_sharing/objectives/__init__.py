"""Objectives: what sharing a load should make small, one file per family."""
