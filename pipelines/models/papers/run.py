"""Runs the jobs of a plan, several at once, and keeps what each took; what is done is not done again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path

from negcap.pipelines.engine.storage import write_json
from negcap.pipelines.models.papers.plan import Job

NEGCAP = (sys.executable, "-m", "negcap")


def run_jobs(jobs: Sequence[Job], output: Path, at_once: int, say: Callable[[str], None]) -> list[str]:
    """Run jobs, up to `at_once` of a stage in parallel; returns the names of those that failed.

    A command's output is in OUTPUT/log, its arguments and CPU seconds in OUTPUT/done; a command with the same arguments
    is not run again, nor is one after a command of its job that failed. No later stage is begun after a failure.
    """
    for _, stage in groupby(jobs, key=lambda job: job.stage):
        with ThreadPoolExecutor(at_once) as pool:
            failed = [name for name in pool.map(lambda job: _run_job(job, output, say), stage) if name]
        if failed:
            return failed
    return []


def _run_job(job: Job, output: Path, say: Callable[[str], None]) -> str:
    """Run a job's commands in turn; returns its name if one fails, else an empty word."""
    for number, command in enumerate(job.commands):
        name = f"{job.name}-{number}".replace(" ", "-")
        done, log = output / "done" / f"{name}.json", output / "log" / f"{name}.txt"
        if done.exists() and json.loads(done.read_text("utf-8"))["command"] == list(command):
            continue
        for file in (done, log):
            file.parent.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        with log.open("wb") as to:
            process = subprocess.Popen([*NEGCAP, *command], stdout=to, stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            say(f"{job.name}: negcap {command[0]} failed, see {log}")
            return job.name
        seconds = {"cpu": round(used.ru_utime + used.ru_stime, 1), "wall": round(time.perf_counter() - began, 1)}
        write_json(done, {"command": list(command), "seconds": seconds})
        say(f"{job.name}: {command[0]}, {seconds['cpu']:.0f} s of CPU, {seconds['wall']:.0f} s")
    return ""


def cpu_minutes(output: Path) -> float:
    """The CPU minutes of all commands that have been run for OUTPUT."""
    files = sorted((output / "done").glob("*.json"))
    return sum(float(json.loads(file.read_text("utf-8"))["seconds"]["cpu"]) for file in files) / 60
