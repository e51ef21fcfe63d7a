"""Results on disk: the last ones (results.json), and all medians ever (history.jsonl)."""

import datetime
import json
import subprocess

from . import measure


def entries_of(cells):
    """One object for each figure; a contender that failed says so instead of a median."""
    found = []
    for cell in cells:
        common = {"bench": cell.name, "peer": cell.peer, "workers": cell.workers}
        if cell.size:
            common["size"] = cell.size
        if cell.trouble and not cell.values:
            found.append({**common, "unit": cell.bench.unit, "failed": cell.trouble, "rounds": 0})
            continue
        figures = [("", cell.bench.unit, cell.values)]
        figures += [("." + name, unit, values) for name, (unit, values) in cell.more.items()]
        for suffix, unit, values in figures:
            entry = {**common, "bench": cell.name + suffix, "unit": unit}
            entry.update(median=measure.statistics.median(values), min=min(values),
                         max=max(values), spread=measure.spread_of(values), rounds=len(values))
            if cell.trouble:
                entry["failed"] = cell.trouble
            found.append(entry)
    return found


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def save(root, out, entries, quick):
    (out / "results.json").write_text(json.dumps(entries, indent=1) + "\n")
    record = {
        "commit": git(root, "rev-parse", "HEAD"),
        "changed": bool(git(root, "status", "--porcelain", "--untracked-files=no")),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "quick": quick,
        "medians": {key(e): [e["median"], round(e["spread"], 4)] for e in entries
                    if "median" in e},
    }
    with (out / "history.jsonl").open("a") as file:
        file.write(json.dumps(record) + "\n")


def key(entry):
    size = f" size {entry['size']}" if "size" in entry else ""
    return f"{entry['bench']} {entry['peer']} w{entry['workers']}{size}"


def load(out):
    path = out / "history.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


# A change smaller than this is not worth a word, however quiet the machine was.
LEAST_NOISE = 0.05


def pick(records, commit):
    """The last record, and the one to compare it with."""
    if len(records) < 2:
        raise SystemExit("bench: the history has fewer than two runs; run `make bench` again")
    if not commit:
        return records[-2], records[-1]
    before = [r for r in records[:-1] if r["commit"].startswith(commit)]
    if not before:
        raise SystemExit(f"bench: no earlier run of a commit {commit} in the history")
    return before[-1], records[-1]


def describe(record):
    return f"{record['commit'][:10]}{'+' if record['changed'] else ''} of {record['date']}"


def diff(out, commit):
    """Lines that say which of our figures changed by more than they scatter. How much the peers'
    figures for the same benchmark moved, for which nobody changed a line, is shown beside."""
    old, new = pick(load(out), commit)
    lines = [f"from {describe(old)}", f"to   {describe(new)}", ""]
    drifts = {}
    changes = []
    for name, (value, spread) in new["medians"].items():
        if name not in old["medians"] or not old["medians"][name][0]:
            continue
        before, old_spread = old["medians"][name]
        bench, peer, rest = name.split(" ", 2)
        change = value / before - 1
        if peer == "weft":
            noise = max(LEAST_NOISE, 2 * (spread + old_spread))
            changes.append((bench, rest, before, value, change, noise))
        else:
            drifts.setdefault((bench, rest), []).append(change)
    for bench, rest, before, value, change, noise in changes:
        stem = bench.removesuffix("_coro").removesuffix("_tasks")
        others = drifts.get((bench, rest)) or drifts.get((stem, rest))
        drift = f"{measure.statistics.median(others) * 100:+.0f}%" if others else "-"
        mark = "  <-- beyond the noise" if abs(change) > noise else ""
        lines.append(f"{bench:28} {rest:16} {before:12.4g} {value:12.4g} {change * 100:+7.1f}% "
                     f"noise {noise * 100:3.0f}%  peers {drift:>5}{mark}")
    lines.append("")
    lines.append(f"{sum(abs(c[4]) > c[5] for c in changes)} of {len(changes)} figures changed by "
                 "more than the noise")
    return lines
