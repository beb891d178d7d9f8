"""Runs as jobs of a Slurm cluster: one sbatch script each, and a folder that all nodes see."""
