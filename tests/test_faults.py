"""The fault bench (`make faults`) in short: a few faults of the kinds that need no other processes than its own."""

import os
import subprocess
import sys

import pytest

from negcap.pipelines.cli.group import THREADS
from tests.benchmarks.faults import KINDS, Tally, report
from tests.conftest import ROOT


@pytest.mark.slow
def test_no_fault_costs_a_run_and_no_damage_is_accepted():
    kinds = ("signal", "damage", "two builds", "input", "stream")
    options = [word for kind in kinds for word in ("--kind", kind)]
    command = [sys.executable, "-m", "tests.benchmarks.faults", "--share", "0.01", *options]
    environment = {**os.environ, **THREADS, "PYTHONPATH": str(ROOT.parent)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1].split()
    assert last[0] == "all" and last[2] == last[1] and last[3:] == ["0", "0"] and int(last[1]) >= len(kinds)


def test_what_is_lost_or_accepted_is_counted_and_named():
    tallies = {
        "signal": Tally(5, 1, 0, ["signal: SIGKILL in parse: other bytes"]),
        "damage": Tally(3, 0, 2, ["x", "y"]),
    }
    lines = list(report(tallies))
    assert [line.split() for line in lines[1:4]] == [
        ["signal", "5", "4", "1", "0"],
        ["damage", "3", "3", "0", "2"],
        ["all", "8", "7", "1", "2"],
    ]
    assert lines[4:] == ["signal: SIGKILL in parse: other bytes", "x", "y"]
    assert {"signal", "damage"} < set(KINDS)
