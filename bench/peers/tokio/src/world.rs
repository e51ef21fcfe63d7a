//! What touches the machine: sleeping workers, timers, memory, sockets.

use crate::{expect, on_workers, one, runtime, Benchmark, Figures, Run};
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, Notify};
use tokio::task::yield_now;

fn wake_latency(run: &Run) -> Figures {
    let size = run.size;
    let (sender, mut end) = mpsc::unbounded_channel::<Instant>();
    std::thread::spawn(move || {
        for _ in 0..size {
            std::thread::sleep(Duration::from_millis(1));
            sender.send(Instant::now()).unwrap();
        }
    });
    let mut ns = on_workers(run.workers, async move {
        let mut ns = Vec::new();
        while let Some(sent) = end.recv().await {
            ns.push(sent.elapsed().as_nanos() as f64);
        }
        ns
    });
    ns.sort_by(f64::total_cmp);
    (ns[ns.len() / 2] / 1e3, vec![("p99", ns[ns.len() * 99 / 100] / 1e3, "us")])
}

fn cpu_ms() -> f64 {
    // SAFETY: getrusage fills the structure, for which all zeroes is a value.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ms = |t: libc::timeval| t.tv_sec as f64 * 1e3 + t.tv_usec as f64 / 1e3;
    ms(usage.ru_utime) + ms(usage.ru_stime)
}

fn timers(run: &Run) -> Figures {
    let size = run.size;
    let before = cpu_ms();
    on_workers(run.workers, async move {
        let step = 1_000_000_000 / size as u64;
        let mut all = Vec::with_capacity(size);
        for i in 0..size as u64 {
            all.push(tokio::spawn(tokio::time::sleep(Duration::from_nanos(step * i))));
        }
        for task in all {
            task.await.unwrap();
        }
    });
    one(cpu_ms() - before)
}

/// The number in kB after `key` in a file of /proc/self, in bytes.
fn proc_bytes(file: &str, key: &str) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap();
    let line = text.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}

fn resident_bytes() -> f64 {
    proc_bytes("smaps_rollup", "Rss:") + proc_bytes("status", "VmPTE:")
}

fn memory(run: &Run) -> Figures {
    let size = run.size;
    one(on_workers(run.workers, async move {
        let gate = Arc::new(Notify::new());
        let parked = Arc::new(AtomicUsize::new(0));
        let woken = Arc::new(AtomicUsize::new(0));
        let before = resident_bytes();
        let mut all = Vec::with_capacity(size);
        for _ in 0..size {
            let (gate, parked, woken) = (gate.clone(), parked.clone(), woken.clone());
            all.push(tokio::spawn(async move {
                parked.fetch_add(1, Ordering::Relaxed);
                gate.notified().await;
                woken.fetch_add(1, Ordering::Relaxed);
            }));
        }
        while parked.load(Ordering::Relaxed) < size {
            yield_now().await;
        }
        let used = resident_bytes() - before;
        while woken.load(Ordering::Relaxed) < size {
            gate.notify_waiters();
            yield_now().await;
        }
        for task in all {
            task.await.unwrap();
        }
        expect(woken.load(Ordering::Relaxed) == size, "not every task was woken");
        used / size as f64
    }))
}

async fn echo(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let mut buffer = [0; 1024];
    while let Ok(n) = stream.read(&mut buffer).await {
        if n == 0 || stream.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

pub fn serve(workers: usize) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    runtime(workers).block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("cannot listen");
        println!("{}", listener.local_addr().unwrap().port());
        loop {
            let (stream, _) = listener.accept().await.expect("cannot accept");
            tokio::spawn(echo(stream));
        }
    });
}

pub const BENCHMARKS: &[Benchmark] = &[
    ("wake_latency", "us", 200, wake_latency),
    ("timers_1m", "ms CPU", 1_000_000, timers),
    ("memory_1m", "bytes", 1_000_000, memory),
];
