"""Trained generators as files for other programs: ONNX, Keras, SavedModel.

Imports `training` (checkpoints), `models` and `data`. ONNX is written without TensorFlow. Read first:
`onnx_generator.py`.
"""
