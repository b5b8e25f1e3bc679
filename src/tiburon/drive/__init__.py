"""Real-time simulation with an operator: ticks by the wall clock, commands, clients, web page.

`Drive` runs a robot with its surroundings and a pilot in real time; servers let browsers and
programs control it.
"""
