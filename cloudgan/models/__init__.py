"""The networks, in Keras operations only, so that they run on every Keras backend."""
