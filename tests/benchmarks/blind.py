"""Print the blind baselines of a run: `python -m tests.benchmarks.blind RUN [--pick random] [--operator noun]`."""

import argparse
from collections import Counter
from pathlib import Path

from negcap.pipelines.quality.bias import BlindConfig, measure_run
from negcap.pipelines.quality.bias.measure import to_markdown
from negcap.pipelines.tables.columns import columns_of


def main() -> None:
    parser = argparse.ArgumentParser(description="Blind baselines of a run's negatives; 50 % (chance) is ideal.")
    parser.add_argument("run", type=Path, help="folder of a run, with its negatives")
    parser.add_argument("picked", nargs="?", choices=("first", "random"), help="the same as --pick")
    parser.add_argument("--pick", choices=("first", "random"), default="first", help="which negative of a caption")
    parser.add_argument("--operator", action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--top", type=int, default=20, help="most frequent exchanges to print per operator")
    given = parser.parse_args()
    found = measure_run(given.run, BlindConfig(given.seed, tuple(given.operator or ()), given.picked or given.pick))
    print(to_markdown(list(found.reports.values())))
    for report in found.reports.values():
        print(f"\n{report.name}: true {', '.join(f'{g!r} {w:+.1f}' for g, w in report.true_cues)}")
        print(f"{report.name}: false {', '.join(f'{g!r} {w:+.1f}' for g, w in report.false_cues)}")
        print("from -> to: rows (rows of the reverse)")
        flows: Counter[tuple[str, str]] = Counter()
        for table in columns_of(given.run, "negatives", ("operator", "replaced", "replacement")):
            rows = [row for row in table.to_pylist() if row["operator"] == report.name]
            flows.update((row["replaced"], row["replacement"]) for row in rows)
        for (old, new), n in sorted(flows.items(), key=lambda item: (-item[1], item[0]))[: given.top]:
            print(f"  {old} -> {new}: {n:,} ({flows[new, old]:,})")


if __name__ == "__main__":
    main()
