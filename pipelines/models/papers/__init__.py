"""The tables of VSE-C, UniVSE and Augmented VSE: what is run for them, and what the papers report. In a checkout of the
repository only, the wheel lacks it.
"""

from pathlib import Path

if not Path(__file__).with_name("__main__.py").exists():
    raise ImportError(
        "negcap.pipelines.models.papers reproduces papers and is not in the wheel: "
        "run it from a checkout of the repository, after pip install -e '.[train]'"
    )
