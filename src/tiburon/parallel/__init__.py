"""Runs beyond one process: sweeps over designs of cases, on this machine or on a cluster."""
