"""Water in the recursions: forces on links, thrusters, fins, floating bodies, trim."""
