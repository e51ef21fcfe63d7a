"""Plots as inline SVG. Colours come from the page, by class."""

import html
import math

from .table import figure

WIDTH = 660
LEFT = 150  # room for labels
RIGHT = 90  # room for figures
BAR = 20
GAP = 6


def text(x, y, words, kind="label", anchor="start"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">'
            f"{html.escape(words)}</text>")


def ticks(limit):
    """Up to five round numbers from 0 to the limit."""
    raw = limit / 4
    step = 10 ** math.floor(math.log10(raw))
    step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= raw)
    return [step * i for i in range(int(limit / step) + 1)]


def bars(rows, axis):
    """rows: [(label, value or None, note, kind)], kind is a class: ours, peer or limit. Bars longer
    than twelve times the shortest are cut, and marked so."""
    values = [value for _, value, _, _ in rows if value]
    if not values:
        return "<p>No figures.</p>"
    longest = min(max(values), 12 * min(values))
    scale = (WIDTH - LEFT - RIGHT) / longest
    bottom = len(rows) * (BAR + GAP)
    parts = []
    for tick in ticks(longest):
        x = LEFT + tick * scale
        parts.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom}" class="grid"/>')
        parts.append(text(x, bottom + 15, figure(tick) if tick else "0", "tick", "middle"))
    for number, (label, value, note, kind) in enumerate(rows):
        y = number * (BAR + GAP)
        middle = y + BAR / 2 + 4
        parts.append(text(LEFT - 8, middle, label, "label", "end"))
        if value is None:
            parts.append(text(LEFT + 4, middle, note, "failed"))
            continue
        length = min(value, longest) * scale
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" '
                     f'class="{kind}"><title>{html.escape(label)}: {value:g} {html.escape(note)}'
                     "</title></rect>")
        if value > longest * 1.001:
            x = LEFT + length - 24
            parts.append(f'<path d="M{x:.1f} {y + BAR} l8 -{BAR} l6 0 l-8 {BAR} z" class="cut"/>')
        parts.append(text(LEFT + length + 6, middle, figure(value), "value"))
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, bottom + 33, axis, "axis", "middle"))
    height = bottom + 40
    return (f'<svg viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{html.escape(axis)}">{"".join(parts)}</svg>')


def course(values):
    """A small line from the first value to the last, above zero."""
    width, height, edge = 240, 36, 4
    scale = (height - 2 * edge) / max(values)
    step = (width - 2 * edge) / max(len(values) - 1, 1)
    points = [(edge + i * step, height - edge - value * scale) for i, value in enumerate(values)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    base = height - edge
    return (f'<svg viewBox="0 0 {width} {height}" class="course" role="img" '
            f'aria-label="{len(values)} runs"><line x1="0" y1="{base}" x2="{width}" y2="{base}" '
            f'class="grid"/><polyline points="{path}" class="ours line"/></svg>')


PLOT_HEIGHT = 260
TOP = 10


def decades(values):
    low = math.floor(math.log10(min(values)))
    high = math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def lines(series, x_axis, y_axis):
    """series: [(label, [(x, y)], kind)]; both axes are logarithmic."""
    points = [point for _, line, _ in series for point in line if point[1] > 0]
    if not points:
        return "<p>No figures.</p>"
    x_low, x_high = decades([x for x, _ in points])
    y_low, y_high = decades([y for _, y in points])
    left, right, bottom = 70, WIDTH - 150, TOP + PLOT_HEIGHT

    def place(x, y):
        return (left + (math.log10(x) - x_low) / (x_high - x_low) * (right - left),
                bottom - (math.log10(y) - y_low) / (y_high - y_low) * PLOT_HEIGHT)

    parts = []
    for power in range(x_low, x_high + 1):
        x, _ = place(10 ** power, 10 ** y_low)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" class="grid"/>')
        parts.append(text(x, bottom + 15, f"{10 ** power:g}", "tick", "middle"))
    for power in range(y_low, y_high + 1):
        _, y = place(10 ** x_low, 10 ** power)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="grid"/>')
        parts.append(text(left - 6, y + 4, f"{10 ** power:g}", "tick", "end"))
    ends = []
    for label, line, kind in series:
        placed = [place(x, y) for x, y in line if y > 0]
        if not placed:
            continue
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" class="{kind} line"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="{kind}"/>' for x, y in placed]
        ends.append([placed[-1][1] + 4, label])
    # Labels that would overlap move down.
    ends.sort()
    for before, after in zip(ends, ends[1:]):
        after[0] = max(after[0], before[0] + 14)
    parts += [text(right + 8, y, label) for y, label in ends]
    parts.append(text((left + right) / 2, bottom + 34, x_axis, "axis", "middle"))
    middle = TOP + PLOT_HEIGHT / 2
    parts.append(f'<text x="14" y="{middle}" class="axis" text-anchor="middle" '
                 f'transform="rotate(-90 14 {middle})">{html.escape(y_axis)}</text>')
    height = bottom + 42
    return (f'<svg viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{html.escape(y_axis)}">{"".join(parts)}</svg>')
