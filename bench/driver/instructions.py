"""Instructions of an operation on a hot path, counted by callgrind: they do not depend on what else
the machine does, so a rise of a few is seen at once.

A program that does N operations also starts and ends; so it runs with N and with 2 N, and the
difference, divided by N, is what one takes. bench/instructions.json keeps the figures that were
agreed on; a check fails if one has risen by more than RISE_MAX. They hold for one compiler and
one kind of processor: elsewhere there is nothing to check against. (Valgrind follows the switches
between stacks here, it needs no help.)
"""

import json
import platform
import re
import shutil
import subprocess

from .table import aligned

PATHS = {
    "switch": "a bare switch between two stacks",
    "switch_full": "the same with the state of exceptions and of floating point",
    "yield": "a yield of a fiber to another",
    "yield_coro": "a yield of a coroutine to another",
    "path_park": "a park and the unpark that ends it",
    "path_channel": "a send and a receive that need not wait",
    "chan_pingpong": "a value to another fiber and back, each end waiting",
    "path_mutex": "a lock and an unlock without contention",
    "path_spawn_join": "spawn a fiber in a scope of its own and join it",
    "path_spawn_join_coro": "the same with a coroutine",
}
COUNT = 5_000
RISE_MAX = 0.10
TIMEOUT_S = 120
SKIPPED = 77  # to ctest


def made_with(program):
    """The compiler, by what it leaves in the program, and the processor."""
    data = program.read_bytes()
    found = (re.search(rb"(clang) version (\d+)", data)
             or re.search(rb"(GCC): \([^)]*\) (\d+)", data))
    compiler = b" ".join(found.groups()).decode() if found else "an unknown compiler"
    return f"{compiler} on {platform.machine()}"


def count_once(program, name, operations):
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program,
         "--workers", "1", "--size", str(operations), name],
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        words = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SystemExit(f"bench: valgrind cannot run {name}: {words}")
    return int(found[1])


def count_all(program):
    counts = {}
    for name in PATHS:
        once, twice = (count_once(program, name, COUNT * factor) for factor in (1, 2))
        counts[name] = round((twice - once) / COUNT, 1)
    return counts


def main(root, program, mode, say):
    path = root / "bench" / "instructions.json"
    kept = json.loads(path.read_text()) if path.exists() else {"made_with": "", "counts": {}}
    here = made_with(program)
    if not shutil.which("valgrind"):
        say("bench: valgrind is missing: no instructions were counted; run scripts/setup")
        return SKIPPED
    if mode == "check" and kept["made_with"] != here:
        say(f"bench: made with {here}, the kept figures with {kept['made_with'] or 'nothing'}: "
            "not compared")
        return SKIPPED
    counts = count_all(program)
    rows = [["path", "instructions", "kept", "change", "", "what"]]
    risen = []
    for name, count in counts.items():
        before = kept["counts"].get(name)
        change = count / before - 1 if before else 0.0
        mark = ""
        if change > RISE_MAX:
            mark = "RISEN"
            risen.append(name)
        rows.append([name, f"{count:g}", f"{before:g}" if before else "-",
                     f"{change * 100:+.1f}%" if before else "-", mark, PATHS[name]])
    for line in aligned(rows, {1, 2, 3}):
        say(line)
    if mode == "record":
        path.write_text(json.dumps({"made_with": here, "counts": counts}, indent=1) + "\n")
        say(f"kept in {path.relative_to(root)}")
        return 0
    if mode == "check" and risen:
        say(f"bench: more than {RISE_MAX * 100:.0f} % more instructions: {', '.join(risen)}. If "
            "that is the price of something worth it: make bench-instructions")
        return 1
    return 0
