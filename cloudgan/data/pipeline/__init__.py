"""From shards to tf.data: preprocessing, its cache, the order of the showers, batches.

May import data, schema and core; only input_pipeline.py imports TensorFlow. Start with training_set.py.
"""
