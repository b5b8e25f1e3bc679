"""Demonstrations with contact: robots that walk and grasp, each with its facts and figures."""
