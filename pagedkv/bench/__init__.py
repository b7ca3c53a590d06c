"""Measurements: the paged kernels against the hardware's ceilings and against the best peers, on the same tensors in
one run.
"""
