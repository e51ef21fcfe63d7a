"""Runs contenders in turn, and keeps what they print."""

import os
import resource
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import catalogue

PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass
class Cell:
    """One contender's runs of one benchmark on so many workers, with so many tasks (0: as usual).
    `name` is the benchmark with its variant, such as yield_coro."""

    bench: catalogue.Bench
    variant: str
    peer: str
    workers: int
    size: int
    command: list
    values: list = field(default_factory=list)
    more: dict = field(default_factory=dict)  # measure -> (unit, values)
    trouble: str = ""
    took: float = 0.0

    @property
    def name(self):
        return self.bench.name + self.variant

    @property
    def median(self):
        return statistics.median(self.values) if self.values else None

    @property
    def spread(self):
        return spread_of(self.values)


def spread_of(values):
    """Half the distance between the quartiles, as a part of the median."""
    if len(values) < 3 or not statistics.median(values):
        return 0.0
    quartiles = statistics.quantiles(values, n=4, method="inclusive")
    return (quartiles[2] - quartiles[0]) / 2 / statistics.median(values)


class Neighbours:
    """How much of the machine's time other programs take meanwhile, from 0 to 1."""

    def __init__(self):
        self.busy, self.ours, self.all = self.look()

    @staticmethod
    def look():
        """Seconds since some beginning: all programs', ours, and what there is to take."""
        stat = Path("/proc/stat")
        if not stat.exists():
            return 0.0, 0.0, 0.0
        ticks = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:9]]
        idle = ticks[3] + ticks[4]
        second = os.sysconf("SC_CLK_TCK")
        usages = [resource.getrusage(who)
                  for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        ours = sum(usage.ru_utime + usage.ru_stime for usage in usages)
        return (sum(ticks) - idle) / second, ours, sum(ticks) / second

    def share(self):
        busy, ours, everything = self.look()
        passed = everything - self.all
        if passed <= 0:
            return 0.0
        return max(0.0, (busy - self.busy) - (ours - self.ours)) / passed


def cells_of(bench, workers, contenders, load, size=0):
    """A cell for each contender and variant that has this benchmark."""
    found = []
    stem = "serve" if bench.served else bench.name
    size_option = ["--size", str(size)] if size else []
    for contender in contenders:
        for variant in catalogue.VARIANTS:
            if contender.program is None or stem + variant not in contender.names:
                continue
            if workers != 1 and variant in catalogue.FOR_ONE_WORKER:
                continue
            own = [contender.program, "--workers", str(workers)]
            if bench.served:
                command = [load, "--workers", str(workers), *size_option, bench.name, "--", *own,
                           stem + variant]
            else:
                command = [*own, *size_option, stem + variant]
            found.append(Cell(bench, variant, contender.name, workers, size, command))
    return found


def too_large(bench, size):
    """Why this machine cannot have so many connections; empty if it can."""
    if not bench.served:
        return ""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if files < size + 64:
        return f"{size} connections need more descriptors than the {files} allowed here"
    first, last = map(int, PORTS.read_text().split()) if PORTS.exists() else (32768, 60999)
    if last - first < size:
        return f"{size} connections need more ports than the {last - first} there are"
    return ""


def parse(cell, output):
    """`NAME VALUE UNIT`, then `NAME.measure VALUE UNIT`; raises ValueError for anything else."""
    printed = cell.bench.name if cell.bench.served else cell.name
    for number, line in enumerate(output.splitlines()):
        name, value, unit = line.split(" ", 2)
        if number == 0:
            if name != printed or unit != cell.bench.unit:
                raise ValueError(line)
            cell.values.append(float(value))
        else:
            measure = name.removeprefix(printed + ".")
            if measure == name:
                raise ValueError(line)
            cell.more.setdefault(measure, (unit, []))[1].append(float(value))
    if not output.strip():
        raise ValueError("it printed nothing")


def run_once(cell, timeout_s):
    start = time.monotonic()
    try:
        done = subprocess.run(cell.command, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=timeout_s, check=False)
        if done.returncode != 0:
            words = (done.stderr.strip().splitlines() or ["no message"])[-1]
            how = f"exit status {done.returncode}"
            if done.returncode < 0:
                how = f"killed by signal {-done.returncode}"
            cell.trouble = f"{how}: {words}"
        else:
            parse(cell, done.stdout)
    except subprocess.TimeoutExpired:
        cell.trouble = f"took longer than {timeout_s:g} s"
    except (ValueError, OSError) as error:
        cell.trouble = f"cannot make sense of what it printed: {error}"
    cell.took += time.monotonic() - start


def run_in_turn(cells, rounds, timeout_s, budget_s, progress):
    """A B C, C B A, A B C, ... so that a slow minute of the machine hits all alike. A contender
    that has failed is not tried again. One that is slow gets fewer rounds, if need be one."""
    for number in range(rounds):
        for cell in cells if number % 2 == 0 else reversed(cells):
            done = len(cell.values)
            too_slow = done >= 1 and cell.took * (done + 1) / done > budget_s
            if cell.trouble or too_slow:
                continue
            progress(cell, number)
            run_once(cell, timeout_s)
