"""Readers and writers of shower files: HDF5, published TFRecord, and conversion between layouts.

May import data and core; only tfrecord.py imports TensorFlow. Start with source.py.
"""
