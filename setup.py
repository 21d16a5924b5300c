"""Which packages and modules the distribution has; pyproject.toml says all else."""

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

LAYERS = ("augment", "pipelines", "schemas")
# What makes the data that negcap ships, or reproduces papers, is on no user's path: packages and modules of which the
# wheel has nothing. Whoever runs them from an installed wheel is told to take a checkout.
RESOURCES = "negcap.pipelines.resources"
PAPERS = "negcap.pipelines.models.papers"
CHECKOUT_ONLY = {f"{RESOURCES}.{name}" for name in ("parser", "concreteness", "reference", "senses", "wordnet")}
CHECKOUT_ONLY |= {f"{PAPERS}.{name}" for name in ("__main__", "plan", "tables")}
WITHOUT_FILES = (RESOURCES, PAPERS)  # their tables of words and of results are for those modules


class BuildWithoutMakers(build_py):
    """Build what the wheel has."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """The modules of a package: its name, the module's name, and the file of each."""
        modules = super().find_package_modules(package, package_dir)
        return [module for module in modules if f"{package}.{module[1]}" not in CHECKOUT_ONLY]

    def find_data_files(self, package: str, src_dir: str) -> list[str]:
        """The files of a package that are no modules."""
        return [] if package in WITHOUT_FILES else super().find_data_files(package, src_dir)


every = [f"negcap.{name}" for layer in LAYERS for name in find_packages(include=[f"{layer}*"])]
setup(
    packages=["negcap", *(name for name in every if name not in CHECKOUT_ONLY)],
    cmdclass={"build_py": BuildWithoutMakers},
)
