"""A serving engine's memory, simulated: requests with real lengths, policies that hold memory for them, and what a run
held. NumPy only.
"""
