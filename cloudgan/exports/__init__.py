"""Trained generators as files for other programs: ONNX, Keras, SavedModel.

Keras writes all three; ONNX with tf2onnx. Imports `training` (checkpoints), `gan` and `data`. Read first:
`shower_model.py`.
"""
