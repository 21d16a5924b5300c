"""What raters said of negatives, with their captions: labels for `python -m negcap.pipelines.resources judgement`.

    python -m tests.benchmarks.readings DATA > labels.tsv
    python -m tests.benchmarks.readings DATA --left-out > unseen.tsv

The first writes the readings that the shipped raters' model was fitted to, the second those made afterwards, of other
captions, on which the model can be tested. DATA: the folder with the captions of COCO, Multi30K and others. The file
`readings.parquet` beside this one has no text of a caption, but says where it stands, `file` in DATA and `line`, from
0. It also has the operator, the edits that make the negative, whether the rater (a language model that knew nothing of
the program) called the negative odd, and said that one photo could be rightly described by both, each 1 or 0;
`refused`, whether rules of negcap keep such a negative from the model, so that what was said of both is left out of the
labels; `fitted`, whether the model was fitted to the reading; and what the rater had before them:

list: a caption with some 12 changes to it, among them also such that rules of negcap refuse.
pair: the caption and the negative, in random order, without being told which is which. A fifth are of negatives of the
lists, more often of those that were neither odd nor both true there; the others were sampled among those that earlier
fits called sensible and false, or nearly so. weight: how many negatives each stands for.
"""

from __future__ import annotations

import csv
import gzip
import sys
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq

from negcap.augment.edits import Edit, apply_edits
from negcap.pipelines.resources.judgement import COLUMNS

READINGS = Path(__file__).with_name("readings.parquet")


def main(data: Path, *, fitted: bool) -> None:
    """Write the labels, tab-separated, to stdout: those that the shipped raters' model was fitted to, or the others."""

    @cache
    def captions(name: str) -> list[str]:
        return gzip.decompress((data / name).read_bytes()).decode().splitlines()

    out = csv.writer(sys.stdout, delimiter="\t", lineterminator="\n")
    out.writerow(COLUMNS)
    for row in pq.read_table(READINGS, filters=[("fitted", "==", fitted)]).to_pylist():
        caption = captions(row["file"])[row["line"]]
        edits = [Edit(its["start"], its["end"], its["new"]) for its in row["edits"]]
        said = row["shown"], round(row["weight"], 3), int(row["odd"]), "" if row["refused"] else int(row["both"])
        out.writerow([caption, apply_edits(caption, edits), *said])


if __name__ == "__main__":
    main(Path(sys.argv[1]), fitted="--left-out" not in sys.argv[2:])
