//! Tasks as such: yielding, spawning, joining, trees of them.

use crate::{expect, on_workers, one, per, runtime, Benchmark, Figures, Run};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;
use tokio::task::yield_now;

fn yielding(run: &Run, tasks: usize) -> Figures {
    let size = run.size;
    one(on_workers(run.workers, async move {
        let start = Instant::now();
        let mut all = Vec::new();
        for _ in 0..tasks {
            all.push(tokio::spawn(async move {
                for _ in 0..size / tasks {
                    yield_now().await;
                }
            }));
        }
        for task in all {
            task.await.unwrap();
        }
        per(start, size)
    }))
}

fn spawn_join(run: &Run) -> Figures {
    let size = run.size;
    one(on_workers(run.workers, async move {
        let start = Instant::now();
        for _ in 0..size {
            tokio::spawn(async {}).await.unwrap();
        }
        per(start, size)
    }))
}

fn fanout(run: &Run) -> Figures {
    let size = run.size;
    one(on_workers(run.workers, async move {
        let ran = Arc::new(AtomicUsize::new(0));
        let start = Instant::now();
        let mut all = Vec::with_capacity(size);
        for _ in 0..size {
            let ran = ran.clone();
            all.push(tokio::spawn(async move {
                ran.fetch_add(1, Ordering::Relaxed);
            }));
        }
        for task in all {
            task.await.unwrap();
        }
        let ns = per(start, size);
        expect(ran.load(Ordering::Relaxed) == size, "not every task ran");
        ns
    }))
}

/// From the thread outside: it spawns through a handle, then waits.
fn burst(run: &Run) -> Figures {
    let runtime = runtime(run.workers);
    let start = Instant::now();
    let mut all = Vec::with_capacity(run.size);
    for _ in 0..run.size {
        all.push(runtime.spawn(async {}));
    }
    runtime.block_on(async {
        for task in all {
            task.await.unwrap();
        }
    });
    one(per(start, run.size))
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

fn skynet_of(number: i64, leaves: i64) -> Boxed<i64> {
    Box::pin(async move {
        if leaves == 1 {
            return number;
        }
        let mut all = Vec::with_capacity(10);
        for i in 0..10 {
            all.push(tokio::spawn(skynet_of(number + i * leaves / 10, leaves / 10)));
        }
        let mut sum = 0;
        for task in all {
            sum += task.await.unwrap();
        }
        sum
    })
}

fn skynet(run: &Run) -> Figures {
    let leaves = run.size as i64;
    one(on_workers(run.workers, async move {
        let start = Instant::now();
        let sum = skynet_of(0, leaves).await;
        let ms = start.elapsed().as_nanos() as f64 / 1e6;
        expect(sum == leaves * (leaves - 1) / 2, "the tree's result");
        ms
    }))
}

fn fib_of(n: usize) -> Boxed<usize> {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let left = tokio::spawn(fib_of(n - 1));
        let right = fib_of(n - 2).await;
        left.await.unwrap() + right
    })
}

/// Per task; fib(n) starts fib(n + 1) - 1 of them.
fn fib(run: &Run) -> Figures {
    let n = run.size;
    one(on_workers(run.workers, async move {
        let (mut result, mut next) = (0, 1);
        for _ in 0..n {
            (result, next) = (next, result + next);
        }
        let start = Instant::now();
        let got = fib_of(n).await;
        let ns = per(start, next - 1);
        expect(got == result, "the tree's result");
        ns
    }))
}

pub const BENCHMARKS: &[Benchmark] = &[
    ("yield", "ns", 3_000_000, |run| yielding(run, 2)),
    ("yield_100", "ns", 3_000_000, |run| yielding(run, 100)),
    ("spawn_join", "ns", 500_000, spawn_join),
    ("fanout_1m", "ns/task", 1_000_000, fanout),
    ("skynet_1m", "ms", 1_000_000, skynet),
    ("fib", "ns/call", 27, fib),
    ("spawn_burst_100k", "ns/task", 100_000, burst),
];
