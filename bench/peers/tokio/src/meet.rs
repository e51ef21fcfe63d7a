//! Meeting points: channels, mutexes, select.

use crate::{expect, on_workers, one, per, runtime, Benchmark, Figures, Run};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, Mutex};
use tokio::task::yield_now;

async fn answer(mut ping: mpsc::Receiver<usize>, pong: mpsc::Sender<usize>) {
    while let Some(value) = ping.recv().await {
        let _ = pong.send(value).await;
    }
}

async fn ask(ping: mpsc::Sender<usize>, mut pong: mpsc::Receiver<usize>, count: usize) -> f64 {
    let start = Instant::now();
    for i in 0..count {
        ping.send(i).await.unwrap();
        pong.recv().await.unwrap();
    }
    per(start, count)
}

/// The smallest channel holds one value.
fn pingpong(run: &Run) -> Figures {
    let size = run.size;
    one(on_workers(run.workers, async move {
        let (ping, ping_end) = mpsc::channel(1);
        let (pong, pong_end) = mpsc::channel(1);
        tokio::spawn(answer(ping_end, pong));
        tokio::spawn(ask(ping, pong_end, size)).await.unwrap()
    }))
}

/// Keeps this thread on the n-th processor of those that the process may use.
fn pin_this_thread(allowed: &libc::cpu_set_t, n: usize) {
    // SAFETY: sets of processors are plain bits, for which all zeroes is a value.
    unsafe {
        let found = (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, allowed));
        if let Some(cpu) = found.skip(n).next() {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut one);
            libc::sched_setaffinity(0, std::mem::size_of_val(&one), &one);
        }
    }
}

fn allowed_processors() -> libc::cpu_set_t {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, std::mem::size_of_val(&set), &mut set);
        set
    }
}

/// Two runtimes, each with a thread and a processor of its own.
fn pingpong_cross(run: &Run) -> Figures {
    let (ping, ping_end) = mpsc::channel(1);
    let (pong, pong_end) = mpsc::channel(1);
    let allowed = allowed_processors();
    let other = std::thread::spawn(move || {
        pin_this_thread(&allowed, 1);
        runtime(1).block_on(answer(ping_end, pong))
    });
    pin_this_thread(&allowed, 0);
    let ns = runtime(1).block_on(ask(ping, pong_end, run.size));
    other.join().unwrap();
    one(ns / 1e3)
}

fn spsc(run: &Run) -> Figures {
    let size = run.size;
    one(on_workers(run.workers, async move {
        let start = Instant::now();
        let (values, mut ends) = mpsc::channel(128);
        let sender = tokio::spawn(async move {
            for i in 0..size {
                values.send(i).await.unwrap();
            }
        });
        let receiver = tokio::spawn(async move { while ends.recv().await.is_some() {} });
        sender.await.unwrap();
        receiver.await.unwrap();
        per(start, size)
    }))
}

/// Tokio's queue has one receiver; several share it behind a lock, as its documentation says.
fn mpmc(run: &Run) -> Figures {
    const ENDS: usize = 4;
    let size = run.size;
    one(on_workers(run.workers, async move {
        let start = Instant::now();
        let (values, end) = mpsc::channel(128);
        let end = Arc::new(Mutex::new(end));
        let mut all = Vec::new();
        for _ in 0..ENDS {
            let values = values.clone();
            all.push(tokio::spawn(async move {
                for i in 0..size / ENDS {
                    values.send(i).await.unwrap();
                }
            }));
            let end = end.clone();
            all.push(tokio::spawn(async move {
                loop {
                    let value = end.lock().await.recv().await;
                    if value.is_none() {
                        break;
                    }
                }
            }));
        }
        drop(values);
        for task in all {
            task.await.unwrap();
        }
        per(start, size)
    }))
}

fn mutex(run: &Run, across: bool) -> Figures {
    const LOCKERS: usize = 8;
    let size = run.size;
    one(on_workers(run.workers, async move {
        let count = Arc::new(Mutex::new(0));
        let start = Instant::now();
        let mut all = Vec::new();
        for _ in 0..LOCKERS {
            let count = count.clone();
            all.push(tokio::spawn(async move {
                for _ in 0..size / LOCKERS {
                    let mut guard = count.lock().await;
                    *guard += 1;
                    if across {
                        yield_now().await;
                    }
                }
            }));
        }
        for task in all {
            task.await.unwrap();
        }
        let ns = per(start, size);
        expect(*count.lock().await == size / LOCKERS * LOCKERS, "an update is lost");
        ns
    }))
}

fn select_8(run: &Run) -> Figures {
    let size = run.size;
    one(on_workers(run.workers, async move {
        let (mut senders, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            let (sender, end) = mpsc::channel::<usize>(1);
            senders.push(sender);
            ends.push(end);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h]: [_; 8] =
            ends.try_into().unwrap();
        tokio::spawn(async move {
            for i in 0..size {
                senders[i % 8].send(i).await.unwrap();
            }
            std::future::pending::<()>().await;
        });
        let start = Instant::now();
        for _ in 0..size {
            tokio::select! {
                _ = a.recv() => {}
                _ = b.recv() => {}
                _ = c.recv() => {}
                _ = d.recv() => {}
                _ = e.recv() => {}
                _ = f.recv() => {}
                _ = g.recv() => {}
                _ = h.recv() => {}
            }
        }
        per(start, size)
    }))
}

pub const BENCHMARKS: &[Benchmark] = &[
    ("chan_pingpong", "ns", 500_000, pingpong),
    ("chan_pingpong_cross", "us", 10_000, pingpong_cross),
    ("chan_spsc_128", "ns/value", 2_000_000, spsc),
    ("chan_mpmc_4x4", "ns/value", 500_000, mpmc),
    ("mutex_8", "ns", 5_000_000, |run| mutex(run, false)),
    ("mutex_yield_8", "ns", 500_000, |run| mutex(run, true)),
    ("select_8", "ns", 1_000_000, select_8),
];
