"""Convolution by Fourier transforms on CPUs, in machine code that is generated here."""
