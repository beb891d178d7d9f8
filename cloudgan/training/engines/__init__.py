"""What a training run computes with: TensorFlow, or JAX."""
