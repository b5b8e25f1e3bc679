"""How hands, legs, arms and thrusters share a load: problems, limits, objectives, solution."""
