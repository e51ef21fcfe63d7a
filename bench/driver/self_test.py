"""Checks the driver itself, with contenders of two lines: tools/bench --self-test."""

import json
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

from . import catalogue, contenders, history, measure, plots, report, table, verdict

YIELD = catalogue.BY_NAME["yield"]


def script(text):
    return [sys.executable, "-c", text]


def cell_of(command, bench=YIELD, peer="weft", variant="", workers=1, size=0):
    return measure.Cell(bench, variant, peer, workers, size, command)


def measured(values, **words):
    cell = cell_of([], **words)
    cell.values = values
    return cell


class Running(unittest.TestCase):
    def run_one(self, text, timeout_s=10.0):
        cell = cell_of(script(text))
        measure.run_once(cell, timeout_s)
        return cell

    def test_a_figure_and_a_further_measure(self):
        cell = self.run_one("print('yield 12.5 ns'); print('yield.p99 3 us')")
        self.assertEqual((cell.values, cell.trouble), ([12.5], ""))
        self.assertEqual(cell.more, {"p99": ("us", [3.0])})

    def test_trouble_is_kept_with_its_message(self):
        for text, words in (
            ("import sys; sys.exit('no such thing')", "exit status 1: no such thing"),
            ("import os; os.abort()", "killed by signal 6"),
            ("print('yield 12.5 us')", "cannot make sense"),
            ("print('mutex 12.5 ns')", "cannot make sense"),
            ("print('yield fast ns')", "cannot make sense"),
            ("pass", "printed nothing"),
        ):
            cell = self.run_one(text)
            self.assertIn(words, cell.trouble)
            self.assertEqual(cell.values, [])
            self.assertEqual(history.entries_of([cell])[0]["failed"], cell.trouble)
            self.assertIn(words, table.failures([cell])[0])

    def test_time_out(self):
        self.assertIn("longer than 0.2 s", self.run_one("import time; time.sleep(9)", .2).trouble)

    def test_contenders_take_turns_and_failures_are_not_repeated(self):
        order = []
        good = [cell_of(script("print('yield 1 ns')"), peer=peer) for peer in ("weft", "go")]
        bad = cell_of(script("raise SystemExit(1)"), peer="tokio")
        measure.run_in_turn([*good, bad], 3, 10, 99, lambda cell, _: order.append(cell.peer))
        self.assertEqual(order, ["weft", "go", "tokio", "go", "weft", "weft", "go"])
        self.assertEqual([len(cell.values) for cell in good], [3, 3])

    def test_a_slow_one_gets_fewer_rounds(self):
        cell = cell_of(script("import time; time.sleep(.3); print('yield 1 ns')"))
        measure.run_in_turn([cell], 5, 10, .5, lambda *_: None)
        self.assertEqual(len(cell.values), 1)

    def test_commands(self):
        names = ["yield", "yield_coro", "serve", "serve_uring"]
        found = [contenders.Contender("weft", Path("w"), names), contenders.Contender("go")]
        cells = measure.cells_of(YIELD, 2, found, "load", 7)
        self.assertEqual([cell.name for cell in cells], ["yield", "yield_coro"])
        self.assertEqual(cells[0].command[1:], ["--workers", "2", "--size", "7", "yield"])
        found[0].names.append("yield_mt")
        self.assertEqual([len(measure.cells_of(YIELD, n, found, "load")) for n in (1, 2)], [3, 2])
        cells = measure.cells_of(catalogue.BY_NAME["echo_64"], 1, found, "load")
        self.assertEqual(cells[1].name, "echo_64_uring")
        self.assertEqual(cells[1].command[3:],
                         ["echo_64", "--", Path("w"), "--workers", "1", "serve_uring"])


    def test_neighbours(self):
        neighbours = measure.Neighbours()
        measure.run_once(cell_of(script("print('yield 1 ns')")), 10)
        self.assertTrue(0 <= neighbours.share() <= 1)
        self.assertEqual(table.warning(0.01), [])
        self.assertIn("40 %", table.warning(0.4)[0])


class Judging(unittest.TestCase):
    def test_bars(self):
        cells = [measured([10.0]), measured([40.0], peer="go"), measured([60.0], peer="tokio"),
                 measured([1.0], peer="threads"), measured([4.0], variant="_coro")]
        verdicts = verdict.Verdicts(cells)
        self.assertEqual(verdicts.best(YIELD, 1), (1.0, "threads"))
        self.assertEqual(verdicts.judge(cells[0]), [("<= 0.2x best", False)])
        self.assertEqual(verdicts.judge(cells[4]), [("<= 0.2x best", True)])
        self.assertEqual(verdicts.best_of(YIELD, 1, "weft"), 4.0)

    def test_more_can_be_better(self):
        echo = catalogue.BY_NAME["echo_64"]
        cells = [measured([95.0], bench=echo), measured([100.0], bench=echo, peer="limit"),
                 measured([90.0], bench=echo, peer="go")]
        met = [met for _, met in verdict.Verdicts(cells).judge(cells[0])]
        self.assertEqual(met, [True, None, True])

    def test_exponents(self):
        sizes = [10 ** power for power in (3, 4, 5, 6)]
        self.assertAlmostEqual(verdict.exponent([(n, 5 * n) for n in sizes]), 1.0)
        self.assertAlmostEqual(verdict.exponent([(n, n ** 1.5) for n in sizes]), 1.5)
        self.assertIsNone(verdict.exponent([(1000, 1.0)]))
        fanout = catalogue.BY_NAME["fanout_1m"]
        cells = [measured([n / 100], bench=fanout, size=n) for n in sizes]
        self.assertIn("ABOVE LINEAR", "\n".join(table.growth_table(cells)))


class Writing(unittest.TestCase):
    def test_differences_beyond_the_noise_are_marked(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            with (out / "history.jsonl").open("w") as file:
                for commit, one, two, go in (("a" * 40, 10, 100, 20), ("b" * 40, 15, 150, 30)):
                    medians = {"yield_coro weft w1": [one, .01], "fib weft w1": [two, .02],
                               "fib go w1": [7, .02], "yield go w1": [go, .02]}
                    file.write(json.dumps({"commit": commit, "changed": False, "date": "today",
                                           "quick": True, "medians": medians}) + "\n")
            marked = [line for line in history.diff(out, "") if "beyond" in line]
            self.assertEqual(len(marked), 1)
            self.assertIn("fib", marked[0])
            self.assertEqual(history.diff(out, "aaa"), history.diff(out, ""))
            self.assertRaises(SystemExit, history.diff, out, "ccc")
        self.assertEqual(history.stem_of("echo_64_coro.p99"), "echo_64.p99")

    def test_plots_are_well_formed(self):
        rows = [("a", 3.0, "ns", "ours"), ("b & c", 900.0, "ns", "peer"), ("d", None, "no", "peer")]
        drawn = [plots.bars(rows, "ns"), plots.bars([("a", 1e-3, "ns", "ours")], "ns"),
                 plots.lines([("a", [(1, 1), (1000, 9)], "ours")], "x", "y"),
                 plots.lines([("a", [(10, 5), (10, 5)], "ours")], "x", "y"),
                 plots.course([3.0, 4.0, 5.0])]
        for text in drawn:
            xml.etree.ElementTree.fromstring(text)
        self.assertIn('class="cut"', drawn[0])

    def test_the_report_has_everything(self):
        failed = cell_of([], peer="tokio")
        failed.trouble = "it broke"
        fanout = catalogue.BY_NAME["fanout_1m"]
        cells = [measured([10.0]), measured([40.0], peer="go"), failed]
        cells += [measured([1.0], bench=fanout, size=n) for n in (1000, 10000)]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "report.html"
            records = [{"medians": {"yield weft w1": [value, 0]}} for value in (3, 4, 5)]
            report.write(Path(folder), path, cells,
                         [contenders.Contender("asio", trouble="none")], records)
            text = path.read_text()
        for words in ("it broke", "asio: none", YIELD.text, "lower is better", "Growth",
                      "From run to run"):
            self.assertIn(words, text)
        self.assertNotIn("http", text)
        self.assertIn("failed", "\n".join(table.main_table(verdict.Verdicts(cells))))


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    return 0 if unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful() else 1
