"""cloudgan trains calorimeter GANs on any cloud, prices every epoch and checks the physics."""

__version__ = "0.1.0"
