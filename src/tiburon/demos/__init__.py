"""Demonstrations: robots that swim, walk, grasp and share loads, with facts and figures."""
