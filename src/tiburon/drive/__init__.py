"""Robots that are driven while one watches: stepping by the clock on the wall, commands, pages.

`Drive` puts a robot, its surroundings and a pilot together and runs them; servers let browsers and
programs take the wheel.
"""
