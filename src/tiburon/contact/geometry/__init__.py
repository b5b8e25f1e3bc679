"""Narrow phase: gap, contact point and normal of two placed shapes, one file per pair of kinds."""
