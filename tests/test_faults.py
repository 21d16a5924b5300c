"""The fault bench (`make faults`) in short: a few faults of the kinds that need no other processes than its own."""

import os
import subprocess
import sys

import pytest

from negcap.pipelines.cli.group import THREADS
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
