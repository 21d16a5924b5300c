"""Formats of Parquet files for programs that read with `datasets`.

huggingface: `data/{operator}/{split}-00000-of-000NN.parquet`, one row per negative. The head of the dataset card
defines one config per operator, and `default` with all of them: the hub's viewer shows them as a menu. With images,
mteb reads the folder by the task file beside it. lmms-eval: Parquet files with questions and images, a YAML file per
split, and the functions that it names; `lmms-eval --include_path DIR --tasks negcap_SPLIT`, started in the folder, asks
a model which caption is true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ...augment.reproducible import record_rng
from ..tables.pairs import MEASURES
from .publication import FLOAT, Column, FileSet, Publication, RecordSet
from .writers import EMBEDDED, Files, ParquetRows, Rows, image_value

SPLIT = Column("split", "the split", property="fullpath", regex=r"^.*/([^/]+)-\d+-of-\d+\.parquet$")
DEFAULT = "default"
NOT_IN_A_SPLIT = re.compile(r"[^\w.]")
PATH = Column("image", "the image's path, relative to the image folder")
COLUMNS = (
    Column("negative_id", "`<caption_id>#<operator>:<k>`"),
    Column("caption_id", "the caption"),
    Column("image_id", "the image"),
    PATH,
    Column("caption", "the true caption"),
    Column("negative_caption", "the negative caption"),
    Column("family", "family of the operator"),
    Column("operator", "the operator that made the negative"),
    Column("replaced", "what was replaced"),
    Column("replacement", "what replaced it"),
    Column(
        "p_true",
        "estimated probability that one more caption of the image would make it true, or null",
        FLOAT,
    ),
    Column("plausibility", "log-odds of the negative to the caption under a language model, in nats, or null", FLOAT),
    Column("context_loss", "loss in log probability of words that negative and caption share, in nats, or null", FLOAT),
    Column("concreteness", "concreteness of the noun that was put in, or null", FLOAT),
)


def split_name(split: str) -> str:
    """A split's name in the characters that the hub allows (letters, digits, dots, underscores): `val-1` -> `val_1`."""
    return NOT_IN_A_SPLIT.sub("_", split)


def card_fields(splits: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The field `configs` for the head of the dataset card: all operators together, then one config per operator.

    splits: by operator, the splits in which it has negatives.
    """
    together = list(dict.fromkeys(split for some in splits.values() for split in some))
    configs = {DEFAULT: ("*", together)} | {name: (name, some) for name, some in splits.items()}
    return {
        "configs": [
            {
                "config_name": name,
                **({"default": True} if name == DEFAULT else {}),
                "data_files": [
                    {"split": split_name(split), "path": f"data/{folder}/{split_name(split)}-*.parquet"}
                    for split in some
                ],
            }
            for name, (folder, some) in configs.items()
        ]
    }


def write_huggingface(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write the Parquet files of every operator and split; one record set per operator."""
    columns = tuple(EMBEDDED if publication.with_images and column is PATH else column for column in COLUMNS)
    with Files(folder, lambda stem: ParquetRows(stem, columns)) as files:
        for example in publication.examples():
            keys = (example.caption_id, example.image_id, image_value(publication, example), example.text)
            for n in example.negatives:
                change = n.family, n.operator, n.replaced, n.replacement, *(getattr(n, name) for name in MEASURES)
                files[f"data/{n.operator}/{split_name(example.split)}"].add((n.negative_id, *keys, n.text, *change))
    made = [Path(name) for name in files]
    if publication.with_images:
        task = MTEB_TASK.format(splits=sorted({name.name for name in made}))
        (folder / "mteb_task.py").write_text(task, encoding="utf-8", newline="\n")
    operators = [name for name in publication.selection.operators if name in {path.parent.name for path in made}]
    what = "negatives by {} with their captions"
    files_of = "data/{}/*.parquet"
    return [RecordSet(name, what.format(name), (*columns, SPLIT), FileSet(files_of.format(name))) for name in operators]


MTEB_TASK = '''"""Evaluate an embedding model of images and texts on this set with mteb, from this folder.

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


LETTERS = "ABCD"
QUESTION = "Which caption describes the image?"
QUESTIONS = (
    Column("question_id", "`<caption_id>#<operator>`"),
    EMBEDDED,
    Column("question", "the question with its options, as it is asked"),
    Column("answer", "the letter of the true caption"),
    Column("operator", "the operator that made the other options"),
    Column("family", "the family of the operator"),
)
FUNCTIONS = '''"""What the YAML files beside this one name."""


def images(row):
    """The image of a question."""
    return [row["image"].convert("RGB")]


def question(row, lmms_eval_specific_kwargs=None):
    """The question with its options."""
    return row["question"]


def answer(row):
    """The letter of the true caption."""
    return row["answer"]


def right(row, results):
    """Whether the first letter that a model answers is that of the true caption; any other answer is wrong."""
    said = results[0].strip().strip("(*\\"' ").upper()
    alone = said[:1] in "ABCD" and not said[1:2].isalpha()
    return {"accuracy": float(alone and said[:1] == row["answer"])}
'''
TASK = """\
task: negcap_{split}
dataset_path: parquet
dataset_kwargs:
  data_files:
    test: {folder}/{split}-*.parquet
test_split: test
output_type: generate_until
doc_to_visual: !function utils.images
doc_to_text: !function utils.question
doc_to_target: !function utils.answer
process_results: !function utils.right
generation_kwargs:
  max_new_tokens: 16
  temperature: 0
  do_sample: false
metric_list:
  - metric: accuracy
    aggregation: mean
    higher_is_better: true
metadata:
  - version: 1.0
"""


def write_lmms_eval(publication: Publication, folder: Path) -> list[RecordSet]:
    """Write `data/{split}-….parquet`, `negcap_{split}.yaml` and `utils.py`; one record set."""
    with Files(folder, lambda stem: ParquetRows(stem, QUESTIONS)) as files:
        for stem, row in _questions(publication):
            files[stem].add(row)
    for split in (Path(name).name for name in files):
        task = TASK.format(split=split, folder="data")
        (folder / f"negcap_{split}.yaml").write_text(task, encoding="utf-8", newline="\n")
    (folder / "utils.py").write_text(FUNCTIONS, encoding="utf-8", newline="\n")
    return [RecordSet("questions", "questions about images", (*QUESTIONS, SPLIT), FileSet("data/*.parquet"))]


def _questions(publication: Publication) -> Rows:
    """A question per caption and operator: the caption and at most three negatives, all different, in random order."""
    assert publication.images is not None
    seed = publication.selection.draws.seed
    for example in publication.examples():
        image = {"bytes": publication.images.read(example.image), "path": example.image}
        for (operator, family), some in groupby(example.negatives, key=lambda n: (n.operator, n.family)):
            wrong = [text for text in dict.fromkeys(n.text for n in some) if text != example.text]
            texts = [example.text, *wrong[: len(LETTERS) - 1]]
            question_id = f"{example.caption_id}#{operator}"
            record_rng(seed, "options", question_id).shuffle(texts)
            options = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, texts, strict=False))
            asked = f"{QUESTION}\n{options}\nAnswer with the letter only."
            row = (question_id, image, asked, LETTERS[texts.index(example.text)], operator, family)
            yield f"data/{split_name(example.split)}", row
