"""The results as a page that needs nothing but itself."""

import datetime
import html
import os
import platform

from . import catalogue, history, plots, table, verdict
from .table import figure

STYLE = """
:root { --back: #fdfdfc; --text: #1c1c1a; --soft: #6b6b66; --line: #deded9; --ours: #c2410c;
  --peer: #6d8fb3; --limit: #9a9a92; --good: #15803d; --bad: #b91c1c; }
@media (prefers-color-scheme: dark) { :root { --back: #161615; --text: #e9e9e4; --soft: #a0a09a;
  --line: #363633; --ours: #f59e5b; --peer: #6f95bf; --limit: #7c7c75; --good: #6cc48a;
  --bad: #f08a80; } }
body { background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif;
  max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; font-size: 1.2rem; } h3 { font-size: 1rem; }
svg { width: 100%; height: auto; display: block; margin: .5rem 0 1rem; }
svg.course { width: 15rem; margin: 0; }
svg text { font: 13px system-ui, sans-serif; fill: var(--text); }
svg .tick, svg .axis { fill: var(--soft); font-size: 12px; } svg .failed { fill: var(--bad); }
svg .value { font-weight: 600; } svg .grid { stroke: var(--line); } svg .cut { fill: var(--back); }
.ours { fill: var(--ours); } .peer { fill: var(--peer); } .limit { fill: var(--limit); }
.line { fill: none; stroke-width: 2; } .ours.line { stroke: var(--ours); }
.peer.line { stroke: var(--peer); } .limit.line { stroke: var(--limit); }
table { border-collapse: collapse; font-size: .85rem; margin: 1rem 0; }
td, th { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
td:first-child, th:first-child { text-align: left; }
.met { color: var(--good); } .missed { color: var(--bad); font-weight: 600; }
.soft { color: var(--soft); } .wide { overflow-x: auto; } a { color: inherit; }
"""

INTRO = """
<p>weft runs tasks: fibers, which have a stack of their own, and coroutines, which have none (names
that end in <b>_coro</b>). Here it does the same work as Go, Tokio (Rust), Boost.Fiber, Asio and
plain threads. <b>limit</b> is what the machine allows: the least assembly, a bare ring buffer, a
server on bare system calls. Each figure is the median of several runs, in which the contenders took
turns. A worker is a thread that runs tasks. Compare figures with their neighbours, not with those
of another machine. A cut bar is longer than it is drawn.</p>
"""

PEER_NAMES = {"boost_fiber": "Boost.Fiber", "go": "Go", "tokio": "Tokio", "asio": "Asio",
              "threads": "threads", "limit": "limit", "weft": "weft"}


def label(cell):
    return PEER_NAMES[cell.peer] + cell.variant.replace("_", " ")


def kind(peer):
    return {"weft": "ours", "limit": "limit"}.get(peer, "peer")


def judgement(verdicts, cell):
    words = []
    for bar, met in verdicts.judge(cell):
        name = {True: "met", False: "missed", None: "soft"}[met]
        said = {True: "met", False: "missed", None: "nothing to compare with"}[met]
        words.append(f'<span class="{name}">{html.escape(cell.name)} {html.escape(bar)}: {said}'
                     "</span>")
    return words


def section(verdicts, bench):
    parts = [f'<h2 id="{bench.name}">{bench.name}</h2><p>{html.escape(bench.text)}</p>']
    for workers in bench.workers:
        cells = [c for c in verdicts.cells if c.bench is bench and c.workers == workers]
        if not cells:
            continue
        worst = float("inf") if bench.better == "lower" else 0
        cells.sort(key=lambda c: worst if c.median is None else c.median,
                   reverse=bench.better == "higher")
        rows = []
        for cell in cells:
            note = bench.unit if cell.median is not None else "failed: " + cell.trouble[:70]
            rows.append((label(cell), cell.median, note, kind(cell.peer)))
        plural = "worker" if workers == 1 else "workers"
        parts.append(f"<h3>{workers} {plural}</h3>")
        parts.append(plots.bars(rows, f"{bench.unit} ({bench.better} is better)"))
        bars = [word for c in cells if c.peer == "weft" for word in judgement(verdicts, c)]
        if bars:
            parts.append(f"<p>Bars: {'; '.join(bars)}</p>")
        parts.append(further(cells))
    return "".join(parts)


def further(cells):
    """Other measures of the same runs, as a small table."""
    names = sorted({name for cell in cells for name in cell.more})
    if not names:
        return ""
    units = {name: c.more[name][0] for c in cells for name in c.more}
    head = "".join(f"<th>{html.escape(n)} ({html.escape(units[n])})</th>" for n in names)
    rows = []
    for cell in cells:
        figures = []
        for name in names:
            values = sorted(cell.more.get(name, ("", []))[1])
            figures.append(f"<td>{figure(values[len(values) // 2]) if values else '-'}</td>")
        rows.append(f"<tr><td>{label(cell)}</td>{''.join(figures)}</tr>")
    return f"<table><tr><th></th>{head}</tr>{''.join(rows)}</table>"


def growth_section(cells):
    rows = verdict.growth(cells)
    if not rows:
        return ""
    parts = ["<h2 id=growth>Growth</h2><p>What becomes of a figure when there are more tasks or "
             "connections. The exponent is that of the total cost: 1 means that twice as many cost "
             f"twice as much; above {verdict.GROWTH_MAX} something does not scale.</p>"]
    for bench in catalogue.ALL:
        mine = [r for r in rows if r[0].startswith(bench.name)]
        if not mine or not bench.sizes:
            continue
        series = []
        for name, peer, _, figures, slope in mine:
            title = PEER_NAMES[peer] + name.removeprefix(bench.name).replace("_", " ")
            words = "" if slope is None else f" ({slope:.2f})"
            series.append((title + words, figures, kind(peer)))
        parts.append(f"<h3>{bench.name}</h3>")
        parts.append(plots.lines(series, "tasks or connections",
                                 f"{bench.unit} ({bench.better} is better)"))
        for name, peer, _, _, slope in mine:
            if slope is not None and slope > verdict.GROWTH_MAX:
                parts.append(f'<p class="missed">{name} by {peer} grows with exponent {slope:.2f}'
                             "</p>")
    return "".join(parts)


def summary(verdicts):
    counts = {True: 0, False: 0}
    rows = []
    for cell in verdicts.cells:
        if cell.peer != "weft":
            continue
        best, who = verdicts.best(cell.bench, cell.workers)
        ratio = f"{cell.median / best:.2f} x {PEER_NAMES[who]}" if best and cell.median else "-"
        marks = []
        for _, met in verdicts.judge(cell):
            if met is not None:
                counts[met] += 1
                marks.append(f'<span class="{"met" if met else "missed"}">'
                             f'{"met" if met else "missed"}</span>')
        value = f"{figure(cell.median)} {cell.bench.unit}" if cell.median is not None else "failed"
        rows.append(f'<tr><td><a href="#{cell.bench.name}">{cell.name}</a></td>'
                    f"<td>{cell.workers}</td><td>{html.escape(value)}</td><td>{ratio}</td>"
                    f"<td>{', '.join(marks)}</td></tr>")
    head = "<tr><th>benchmark</th><th>workers</th><th>weft</th><th>to the best peer</th>"
    return (f"<p>{counts[True]} bars met, {counts[False]} missed.</p><div class=wide><table>{head}"
            f"<th>bars</th></tr>{''.join(rows)}</table></div>")


RUNS_SHOWN = 40


def history_section(records):
    """How our figures went from run to run, once there are three."""
    courses = {}
    for record in records[-RUNS_SHOWN:]:
        for name, (value, _) in record["medians"].items():
            if " weft w" in name and " size " not in name:
                courses.setdefault(name.replace(" weft", ""), []).append(value)
    rows = [f"<tr><td>{name}</td><td>{figure(values[0])}</td><td>{figure(values[-1])}</td>"
            f"<td>{plots.course(values)}</td></tr>"
            for name, values in courses.items() if len(values) >= 3]
    if not rows:
        return ""
    head = "<tr><th>benchmark, workers</th><th>first</th><th>last</th><th>run by run</th></tr>"
    return ("<h2 id=history>From run to run</h2><p>The medians of weft in the last runs on this "
            "machine, oldest on the left, zero at the bottom. `make bench-diff` compares two of "
            f"them.</p><div class=wide><table>{head}{''.join(rows)}</table></div>")


def write(root, path, cells, contenders, records):
    verdicts = verdict.Verdicts(cells)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    commit = history.git(root, "rev-parse", "--short", "HEAD")
    where = f"{os.cpu_count()} processors, {platform.system()} {platform.release()}, " \
            f"{platform.machine()}"
    failed = [f"{c.name}: {c.trouble}" for c in contenders if c.trouble]
    failed += [f"{c.name} by {c.peer}, {c.workers} workers: {c.trouble}" for c in cells
               if c.trouble]
    troubles = "".join(f'<li class="missed">{html.escape(line)}</li>' for line in failed)
    body = [f"<h1>weft beside its peers</h1><p class=soft>{now}, commit {commit}, {where}</p>",
            INTRO, *(f"<p class=missed>{html.escape(line)}</p>" for line in
                     table.warning(records[-1].get("others", 0) if records else 0)),
            summary(verdicts)]
    if troubles:
        body.append(f"<h2>What failed</h2><ul>{troubles}</ul>")
    body += [section(verdicts, bench) for bench in catalogue.ALL
             if any(c.bench is bench for c in verdicts.cells)]
    body += [growth_section(cells), history_section(records)]
    path.write_text(f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta '
                    f'name="viewport" content="width=device-width"><title>weft: benchmarks</title>'
                    f"<style>{STYLE}</style></head><body>{''.join(body)}</body></html>\n")
