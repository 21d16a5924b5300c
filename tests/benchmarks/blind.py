"""Print the blind baselines of a run: `python -m tests.benchmarks.blind RUN [first|random]`."""

import sys
from pathlib import Path

from pipelines.quality.bias import flows, measure_run, to_markdown


def main(run: Path, pick: str = "first") -> None:
    reports = measure_run(run, pick="random" if pick == "random" else "first")
    print(to_markdown(reports))
    for report in reports:
        print(f"\n{report.name}: true {', '.join(f'{g!r} {w:+.1f}' for g, w in report.true_cues)}")
        print(f"{report.name}: false {', '.join(f'{g!r} {w:+.1f}' for g, w in report.false_cues)}")
    print("\nnumeral flows: from, to, rows, rows of the reverse")
    for old, new, rows, back in flows(run, "numeral"):
        print(f"  {old} -> {new}: {rows:,} ({back:,})")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
