"""What drives and resists joints: motors, thrusters, friction, springs, limits, wrenches."""
