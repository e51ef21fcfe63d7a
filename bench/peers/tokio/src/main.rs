//! The contender `tokio`: the same work, names and units as bench/suite, with Tokio. What it
//! understands is written in bench/suite/protocol.hpp. tools/bench builds it from the crates of the
//! distribution.
//!
//! One worker is a current_thread runtime; for a name that ends in `_mt` it is a multi_thread one
//! with a single worker. Which is faster differs. Several workers are a multi_thread runtime.

mod meet;
mod tasks;
mod world;

use std::future::Future;
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

pub struct Run {
    pub workers: usize,
    pub size: usize,
}

/// The figure, then further measures with name and unit.
pub type Figures = (f64, Vec<(&'static str, f64, &'static str)>);
pub type Benchmark = (&'static str, &'static str, usize, fn(&Run) -> Figures);

pub fn one(value: f64) -> Figures {
    (value, Vec::new())
}

pub fn per(start: Instant, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

pub fn expect(right: bool, what: &str) {
    if !right {
        eprintln!("wrong: {what}");
        exit(1);
    }
}

const MT: &str = "_mt";
static ALWAYS_MULTI_THREAD: AtomicBool = AtomicBool::new(false);

pub fn runtime(workers: usize) -> Runtime {
    let built = if workers == 1 && !ALWAYS_MULTI_THREAD.load(Ordering::Relaxed) {
        Builder::new_current_thread().enable_all().build()
    } else {
        Builder::new_multi_thread().worker_threads(workers).enable_all().build()
    };
    built.expect("cannot start a runtime")
}

/// Runs `body` as a task; what a block_on itself runs is not scheduled like the others.
pub fn on_workers<T: Send + 'static>(
    workers: usize,
    body: impl Future<Output = T> + Send + 'static,
) -> T {
    let runtime = runtime(workers);
    runtime.block_on(async { tokio::spawn(body).await.expect("a task failed") })
}

fn usage_error(what: String) -> ! {
    eprintln!("tokio: {what}\nusage: tokio --list | --workers N [--size K] NAME");
    exit(2);
}

fn number(text: Option<String>) -> usize {
    match text.as_deref().unwrap_or("").parse() {
        Ok(n) if n > 0 => n,
        _ => usage_error(format!("not a number above 0: {}", text.unwrap_or_default())),
    }
}

fn main() {
    let all = [tasks::BENCHMARKS, meet::BENCHMARKS, world::BENCHMARKS].concat();
    let mut run = Run { workers: 1, size: 0 };
    let mut name = String::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => {
                for name in all.iter().map(|b| b.0).chain(["serve"]) {
                    println!("{name}\n{name}{MT}");
                }
                return;
            }
            "--workers" => run.workers = number(words.next()),
            "--size" => run.size = number(words.next()),
            _ if word.starts_with('-') || !name.is_empty() => {
                usage_error(format!("cannot make sense of '{word}'"))
            }
            _ => name = word,
        }
    }
    let stem = name.strip_suffix(MT).unwrap_or(&name);
    ALWAYS_MULTI_THREAD.store(stem != name, Ordering::Relaxed);
    if stem == "serve" {
        return world::serve(run.workers);
    }
    let benchmark = match all.iter().find(|b| b.0 == stem) {
        Some(found) => found,
        None => usage_error(format!("there is no benchmark '{name}'; --list names them")),
    };
    if run.size == 0 {
        run.size = benchmark.2;
    }
    let (value, more) = benchmark.3(&run);
    println!("{name} {value:.3} {}", benchmark.1);
    for (measure, value, unit) in more {
        println!("{name}.{measure} {value:.3} {unit}");
    }
}
