"""Convolution by Fourier transforms on CPUs, in machine code generated with llvmlite.

May import core. Start with program.py.
"""
