"""Google Cloud: Kubernetes Engine, and Cloud TPU without Kubernetes."""
