"""What is measured: each benchmark in a sentence, and the bar that weft is held to.

A bar says: weft's figure, divided by that of `of`, is at most (or, where more is better, at least)
`ratio`. `of` is a contender, "best" (the best of PEERS_OF_BARS) or None for an absolute figure.
`kind` restricts it to fibers ("fiber"), to coroutines ("coro") or not at all ("").
"""

from dataclasses import dataclass, field

PEERS_OF_BARS = ("boost_fiber", "go", "tokio")
# What a name may end in besides the benchmark's own name: other ways of the same contender.
VARIANTS = ("", "_full", "_coro", "_tasks", "_mt", "_epoll", "_uring")
# Another way to run one worker; with more there is no difference.
FOR_ONE_WORKER = ("_mt",)
LIMIT = "limit"
US = "weft"


@dataclass(frozen=True)
class Bar:
    ratio: float
    of: str | None = "best"
    workers: int = 0  # 0: any number
    kind: str = ""

    def text(self, better):
        sign = "<=" if better == "lower" else ">="
        return f"{sign} {self.ratio:g}" + (f"x {self.of}" if self.of else "")


@dataclass(frozen=True)
class Bench:
    name: str
    unit: str
    text: str
    better: str = "lower"
    workers: tuple = (1, 2)
    quick: bool = False
    served: bool = False  # measured by the load generator on a server
    sizes: tuple = ()  # for growth
    total: str = "times"  # how a figure becomes a total cost: times the size, as it is, or inverse
    bars: list = field(default_factory=list)


def both(one, two, of="best"):
    return [Bar(one, of, 1), Bar(two, of, 2)]


def fiber_coro(fiber, coro, of="go", workers=0):
    return [Bar(fiber, of, workers, "fiber"), Bar(coro, of, workers, "coro")]


GROWTH = (1_000, 10_000, 100_000, 1_000_000)

ALL = [
    Bench("switch", "ns", "One switch from a stack to another and nothing else: no queue, no "
          "scheduler. The limit is the least assembly that does it. switch_full also keeps the "
          "state of exceptions and of floating point, as every switch of a fiber does.",
          workers=(1,), quick=True, bars=[Bar(1.25, LIMIT)]),
    Bench("yield", "ns", "Two tasks give way to each other; the time of one yield.", quick=True,
          bars=[Bar(0.2)]),
    Bench("yield_100", "ns", "A hundred tasks give way to each other; the time of one yield.",
          bars=[Bar(0.2)]),
    Bench("spawn_join", "ns", "A task starts another one that does nothing and waits for its end.",
          quick=True, bars=fiber_coro(.25, .15, workers=1) + fiber_coro(.3, .2, workers=2)),
    Bench("fanout_1m", "ns/task", "A task starts a million that count themselves, then waits for "
          "all. The program has just been started: no memory is warm.", quick=True, sizes=GROWTH,
          bars=fiber_coro(.2, .1, workers=1) + fiber_coro(.4, .25, workers=2)),
    Bench("skynet_1m", "ms", "A tree of tasks, ten branches at each level, with a million leaves "
          "whose numbers are added up. In weft branches are forks; _tasks spawns each one. The "
          "limit makes plain calls.",
          quick=True, bars=fiber_coro(.25, .06, workers=1) + fiber_coro(.2, .05, workers=2)),
    Bench("fib", "ns/call", "Fibonacci numbers by recursion; one of the two calls in each may be "
          "made by another worker. In weft these are forks; _tasks spawns each one. The limit "
          "makes plain calls.",
          bars=fiber_coro(.3, .06)),
    Bench("chan_pingpong", "ns", "A value goes to another task and back, through two channels "
          "without buffer. Tokio has none without; its channels here hold one value.", quick=True,
          bars=both(.35, .4)),
    Bench("chan_pingpong_cross", "us", "The same, but the two tasks are bound to workers on "
          "different processors, which have to wake each other.", workers=(2,), quick=True,
          bars=[Bar(.25)]),
    Bench("chan_spsc_128", "ns/value", "Values from one task to another, through a channel that "
          "holds 128. The limit is a bare ring buffer.", quick=True, bars=both(.6, .5)),
    Bench("chan_mpmc_4x4", "ns/value", "Values from four tasks to four others, through one channel "
          "that holds 128.", quick=True, bars=both(.6, .45)),
    Bench("mutex_8", "ns", "Eight tasks take and release the same lock to count to millions.",
          quick=True, bars=both(.7, .45)),
    Bench("mutex_yield_8", "ns", "The same, but each yields while it holds the lock, so that all "
          "others queue up.", bars=[Bar(.3, workers=1)]),
    Bench("select_8", "ns", "A task waits for whichever of eight channels without buffer has a "
          "value first; another sends to them in turn. Tokio's channels hold one value each, so "
          "that its sender runs ahead.", quick=True),
    Bench("wake_latency", "us", "From a plain thread's send to the next line of the task that "
          "waits for it, when all workers sleep. Median of 200."),
    Bench("timers_1m", "ms CPU", "A million tasks sleep once each, for times spread over a second; "
          "processor time of the program.", workers=(1,), sizes=GROWTH, total="itself",
          bars=fiber_coro(1.0, .5, of="tokio")),
    Bench("memory_1m", "bytes", "Memory of a task that waits on a channel, a million of them: "
          "resident bytes and page tables. Threads: 5,000 of them.", workers=(1,), sizes=GROWTH,
          bars=[Bar(.5, "tokio", 0, "coro"), Bar(4700, None, 0, "fiber")]),
    Bench("spawn_burst_100k", "ns/task", "A plain thread throws 100,000 tasks at the workers and "
          "waits until all have run."),
    Bench("echo_64", "req/s", "A TCP server returns what it receives, 64 bytes at a time, to 64 "
          "clients that wait for each answer. One processor for the server, one for the clients.",
          "higher", (1,), quick=True, served=True, sizes=GROWTH[:3], total="inverse",
          bars=[Bar(.9, LIMIT), Bar(.95, "limit_uring"), Bar(1.0)]),
    Bench("echo_pipelined", "req/s", "The same with 16 requests under way on each of 64 "
          "connections.", "higher", (1,), served=True),
    Bench("idle_conns", "bytes", "Memory of the server for each of 10,000 connections that are "
          "silent, without what the system needs for sockets.", workers=(1,), served=True,
          sizes=GROWTH[:3]),
]
BY_NAME = {bench.name: bench for bench in ALL}


def kind_of(variant):
    """Of a name's ending: which bars apply. A variant with another ending has none."""
    return {"": "fiber", "_coro": "coro"}.get(variant, "none")


def bars_for(bench, variant, workers):
    kind = kind_of(variant)
    return [bar for bar in bench.bars
            if bar.workers in (0, workers) and kind != "none" and bar.kind in ("", kind)]
