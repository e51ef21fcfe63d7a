"""The results as text."""

from . import catalogue, verdict


def figure(value):
    """Three digits that count, whatever the size."""
    if value is None:
        return "-"
    if value >= 99_500:
        return f"{value / 1000:.0f}k"
    if value >= 99.5:
        return f"{value:.0f}"
    return f"{value:.3g}"


def our_rows(verdicts, peers):
    for cell in verdicts.cells:
        if cell.peer != catalogue.US:
            continue
        bench = cell.bench
        row = [cell.name, str(cell.workers), bench.unit]
        ours = "failed"
        if cell.median is not None:
            ours = f"{figure(cell.median)} ±{cell.spread * 100:.0f}%"
        row.append(ours)
        for peer in peers:
            value = verdicts.best_of(bench, cell.workers, peer)
            tried = (bench.name, peer, cell.workers) in verdicts.by_key
            row.append("failed" if tried and value is None else figure(value))
        best = verdicts.best(bench, cell.workers)[0]
        limit = verdicts.best_of(bench, cell.workers, catalogue.LIMIT)
        row.append(figure(limit))
        for other in (best, limit):
            row.append(f"{cell.median / other:.2f}" if cell.median and other else "-")
        judged = verdicts.judge(cell)
        row.append("; ".join(text for text, _ in judged))
        words = {True: "met", False: "MISSED", None: "?"}
        row.append("; ".join(words[met] for _, met in judged))
        yield row


def aligned(rows, right):
    """Rows of strings as columns; those in `right` flush right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        parts = [text.rjust(width) if i in right else text.ljust(width)
                 for i, (text, width) in enumerate(zip(row, widths))]
        lines.append("  ".join(parts).rstrip())
    return lines


def main_table(verdicts):
    seen = {cell.peer for cell in verdicts.cells}
    peers = [p for p in ("boost_fiber", "go", "tokio", "asio", "threads") if p in seen]
    header = ["benchmark", "w", "unit", "weft", *peers, "limit", "/best", "/limit", "bar", ""]
    rows = [header, *our_rows(verdicts, peers)]
    return aligned(rows, set(range(3, len(header) - 2)) | {1})


def growth_table(cells):
    rows = [["growth", "by", "w", "figure at size", "exponent", ""]]
    for name, peer, workers, figures, slope in verdict.growth(cells):
        points = ", ".join(f"{figure(size)}: {figure(value)}" for size, value in figures)
        flag = "ABOVE LINEAR" if slope is not None and slope > verdict.GROWTH_MAX else ""
        text = "-" if slope is None else f"{slope:.2f}"
        rows.append([name, peer, str(workers), points, text, flag])
    return aligned(rows, {2, 4}) if len(rows) > 1 else []


OTHERS_MAX = 0.05


def warning(others):
    """A line, if other programs had more of the machine than a measurement can bear."""
    if others <= OTHERS_MAX:
        return []
    return [f"disturbed: other programs took {others * 100:.0f} % of the processors' time; figures "
            "for 2 workers and for servers suffer most"]


def failures(cells):
    return [f"failed: {c.name} by {c.peer}, {c.workers} workers"
            + (f", size {c.size}" if c.size else "") + f": {c.trouble}"
            for c in cells if c.trouble]
