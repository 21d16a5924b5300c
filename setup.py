"""Which packages the distribution has; pyproject.toml says all else."""

from setuptools import find_packages, setup

LAYERS = ("augment", "pipelines", "schemas")

setup(packages=["negcap", *(f"negcap.{name}" for layer in LAYERS for name in find_packages(include=[f"{layer}*"]))])
