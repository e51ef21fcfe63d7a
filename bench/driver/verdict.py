"""What the figures say: ratios, bars met or missed, growth."""

import math

from . import catalogue


class Verdicts:
    """Looks up medians and judges weft's."""

    def __init__(self, cells):
        self.cells = [cell for cell in cells if not cell.size]
        self.by_key = {(c.name, c.peer, c.workers): c for c in self.cells}

    def median(self, name, peer, workers):
        cell = self.by_key.get((name, peer, workers))
        return cell.median if cell else None

    def best(self, bench, workers, peers=None):
        """The best median of the peers, and whose it is. Neither we nor the limit are peers."""
        found = []
        for cell in self.cells:
            outside = cell.peer in (catalogue.US, catalogue.LIMIT)
            if cell.bench is not bench or cell.workers != workers or cell.median is None:
                continue
            if not outside and (peers is None or cell.peer in peers):
                found.append((cell.median, cell.peer))
        if not found:
            return None, ""
        return (min if bench.better == "lower" else max)(found)

    def best_of(self, bench, workers, peer):
        """The best that a contender can do, in whichever way."""
        found = [cell.median for cell in self.cells if cell.bench is bench and cell.peer == peer
                 and cell.workers == workers and cell.median is not None]
        return (min if bench.better == "lower" else max)(found) if found else None

    def reference(self, bench, bar, workers):
        if bar.of is None:
            return 1.0
        if bar.of == "best":
            return self.best(bench, workers, catalogue.PEERS_OF_BARS)[0]
        if bar.of == "limit_uring":
            return self.median(bench.name + "_uring", catalogue.LIMIT, workers)
        if bar.of == catalogue.LIMIT:
            return self.median(bench.name, bar.of, workers)
        return self.best_of(bench, workers, bar.of)

    def judge(self, cell):
        """(text, met) for each bar of a cell of ours; met is None where there is nothing to
        compare with."""
        judged = []
        for bar in catalogue.bars_for(cell.bench, cell.variant, cell.workers):
            reference = self.reference(cell.bench, bar, cell.workers)
            met = None
            if reference and cell.median is not None:
                ratio = cell.median / reference
                met = ratio <= bar.ratio if cell.bench.better == "lower" else ratio >= bar.ratio
            judged.append((bar.text(cell.bench.better), met))
        return judged


def total_cost(cell):
    """What all `size` tasks or connections cost together, in whatever unit."""
    if cell.bench.total == "itself":
        return cell.median
    if cell.bench.total == "inverse":
        return cell.size / cell.median
    return cell.size * cell.median


GROWTH_MAX = 1.15


def exponent(points):
    """The slope of log(cost) over log(size), by least squares: 1 is linear."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points if cost > 0]
    if len(logs) < 2:
        return None
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread


def growth(cells):
    """[(name, peer, workers, [(size, figure)], exponent)] of cells with a size."""
    grouped = {}
    for cell in cells:
        if cell.size and cell.median is not None:
            grouped.setdefault((cell.name, cell.peer, cell.workers), []).append(cell)
    rows = []
    for (name, peer, workers), group in grouped.items():
        group.sort(key=lambda cell: cell.size)
        figures = [(cell.size, cell.median) for cell in group]
        rows.append((name, peer, workers, figures,
                     exponent([(cell.size, total_cost(cell)) for cell in group])))
    return rows
