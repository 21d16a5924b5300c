"""What readers said of negatives, with their captions: labels for `python -m negcap.pipelines.resources judgement`.

    python -m tests.benchmarks.readings DATA list > labels.tsv

DATA: the folder with the captions of COCO, Multi30K and Flickr8k. The file `readings.parquet` beside this one has no
text of a caption, but says where it stands, `file` in DATA and `line` (of JSON, the number of the annotation), both
from 0. It also has the operator, the edits that make the negative, and the share of readers who called the negative
odd, and who said that one photo could be rightly described by both.

shown, the second argument, is what the readers (language models that knew nothing of the program) had before them:

list: a caption with some 14 changes to it, among them also such that rules of negcap refuse; one reader for a caption.
pair: the caption and the negative, in random order, without being told which is which; two readers. The negatives were
drawn by a judge that was fitted to the list, with `p_odd` up to 0.3 or 0.2; half of the pairs without two rules.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from functools import cache
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from negcap.augment.edits import Edit, apply
from negcap.pipelines.resources.judgement import COLUMNS

READINGS = Path(__file__).with_name("readings.parquet")


def main(data: Path, shown: str) -> None:
    """Write the labels, tab-separated, to stdout; of two readers who disagree, none."""

    @cache
    def captions(name: str) -> list[str]:
        text = (data / name).read_bytes()
        text = gzip.decompress(text) if name.endswith(".gz") else text
        if ".json" in name:
            return [row["caption"] for row in json.loads(text)["annotations"]]
        return text.decode().splitlines()

    out = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
    out.writerow(COLUMNS)
    for row in pq.read_table(READINGS, filters=pc.field("shown") == shown).to_pylist():
        caption = captions(row["file"])[row["line"]]
        edits = [Edit(its["start"], its["end"], its["new"]) for its in row["edits"]]
        said = ("" if row[name] == 0.5 else int(row[name]) for name in COLUMNS[2:])
        out.writerow([caption, apply(caption, edits), *said])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
