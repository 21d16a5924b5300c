"""The task file by which mteb evaluates models on the Hugging Face layout with images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

TASK = "mteb_task.py"
TEMPLATE = '''"""Evaluate an embedding model of images and texts on this set with mteb, from this folder.

    import mteb
    from mteb_task import NegcapPairs

    mteb.evaluate(mteb.get_model("openai/clip-vit-base-patch32"), NegcapPairs())
"""

from pathlib import Path

from datasets import load_dataset
from mteb.abstasks.image.image_text_pair_classification import AbsTaskImageTextPairClassification
from mteb.abstasks.task_metadata import TaskMetadata


class NegcapPairs(AbsTaskImageTextPairClassification):
    """Is the image nearer to its caption than to the negative caption? `text_acc` says how often."""

    images_column_names = ("image",)
    texts_column_names = ("caption", "negative_caption")
    metadata = TaskMetadata(
        name="NegcapPairs",
        description="Captions and their negatives: sentences that are false of the image.",
        dataset={{"path": str(Path(__file__).parent), "revision": "none"}},
        type="Compositionality",
        category="i2t",
        modalities=["text", "image"],
        eval_splits={splits!r},
        eval_langs=["eng-Latn"],
        main_score="text_acc",
    )

    def load_data(self, **given):
        """Load the Parquet files beside this file."""
        self.dataset = load_dataset(str(Path(__file__).parent), "default")
        self.data_loaded = True
'''


def write_task(folder: Path, splits: Sequence[str]) -> None:
    """Write mteb_task.py for the splits of a folder."""
    (folder / TASK).write_text(TEMPLATE.format(splits=list(splits)), encoding="utf-8", newline="\n")
