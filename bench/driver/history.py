"""Results on disk: the last ones (results.json), and all medians ever (history.jsonl)."""

import datetime
import json
import statistics
import subprocess

from . import catalogue, measure, table


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
            entry.update(median=statistics.median(values), min=min(values),
                         max=max(values), spread=measure.spread_of(values), rounds=len(values))
            if cell.trouble:
                entry["failed"] = cell.trouble
            found.append(entry)
    return found


def git(root, *words):
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def save(root, out, entries, quick, others):
    (out / "results.json").write_text(json.dumps(entries, indent=1) + "\n")
    record = {
        "commit": git(root, "rev-parse", "HEAD"),
        "changed": bool(git(root, "status", "--porcelain", "--untracked-files=no")),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "quick": quick,
        "others": round(others, 3),
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


def drifts_of(old, new):
    """How much the peers' figures moved, for which nobody changed a line: (bench, rest) ->
    (median of the changes, median of their spreads)."""
    moved = {}
    for name, (value, spread) in new.items():
        bench, peer, rest = name.split(" ", 2)
        before, old_spread = old.get(name, (0, 0))
        if before and peer not in ("weft", "limit"):
            moved.setdefault((bench, rest), []).append((value / before - 1, spread + old_spread))
    return {key: tuple(map(statistics.median, zip(*changes))) for key, changes in moved.items()}


def stem_of(bench):
    """yield_coro -> yield, echo_64_coro.p99 -> echo_64.p99: what the peers have."""
    name, dot, measured = bench.partition(".")
    for variant in catalogue.VARIANTS:
        if variant and name.endswith(variant):
            name = name.removesuffix(variant)
    return name + dot + measured


def diff(out, commit):
    """Lines that say which of our figures changed by more than they scatter, after what the machine
    did to everybody has been taken off."""
    old, new = pick(load(out), commit)
    lines = [f"from {describe(old)}", f"to   {describe(new)}",
             *(line for record in (old, new) for line in table.warning(record.get("others", 0))),
             "",
             f"{'':28} {'':16} {'before':>10} {'now':>10} {'change':>8} {'peers':>7} "
             f"{'ours alone':>11} {'noise':>6}"]
    drifts = drifts_of(old["medians"], new["medians"])
    count = marked = 0
    for name, (value, spread) in new["medians"].items():
        bench, peer, rest = name.split(" ", 2)
        before, old_spread = old["medians"].get(name, (0, 0))
        if peer != "weft" or not before:
            continue
        drift, scatter = drifts.get((stem_of(bench), rest), (0.0, 0.0))
        change = value / before - 1
        alone = (1 + change) / (1 + drift) - 1
        noise = max(LEAST_NOISE, 2 * (spread + old_spread + scatter))
        mark = "  <-- beyond the noise" if abs(alone) > noise else ""
        count += 1
        marked += bool(mark)
        lines.append(f"{bench:28} {rest:16} {before:10.4g} {value:10.4g} {change * 100:+7.1f}% "
                     f"{drift * 100:+6.1f}% {alone * 100:+10.1f}% {noise * 100:5.0f}%{mark}")
    lines += ["", f"{marked} of {count} figures changed by more than the noise"]
    return lines
