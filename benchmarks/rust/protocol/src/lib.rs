//! How the references are measured: exactly as `benchmarks/common.py` measures Everview, on the same files.
//!
//! A directory holds the rows of each table as `NAME.i64` (little-endian 64-bit words, row by row) and the changes of the
//! table that changes, `old.i64` and `new.i64`. An engine is built (*install*), given all rows in one step (*load*), then
//! changes one at a time, then in batches. CPU seconds are those of the whole process, threads included. At the end the
//! engine's answer is written to `answer.i64`, sorted, and `run.py` compares it with ours: no number of a wrong program
//! counts. The report is one JSON object with the names that ours has.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Rows of one table: `columns` words each.
pub struct Rows {
    words: Vec<i64>,
    columns: usize,
}

impl Rows {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.words.len() / self.columns
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[i64]> {
        self.words.chunks_exact(self.columns)
    }

    /// The row with that number.
    pub fn row(&self, at: usize) -> &[i64] {
        &self.words[at * self.columns..(at + 1) * self.columns]
    }
}

/// What one run is asked for: `REFERENCE WORKLOAD DIRECTORY TABLE:COLUMNS WARM_UP SINGLES BATCH BATCHES [K]`.
pub struct Task {
    pub workload: String,
    pub directory: PathBuf,
    /// The table that changes, and how many columns it has.
    pub table: String,
    pub columns: usize,
    pub warm_up: usize,
    pub singles: usize,
    pub batch: usize,
    pub batches: usize,
    /// The k of k-core.
    pub k: i64,
}

impl Task {
    /// What the command line says; anything missing is an error of `run.py`, so a panic with the usage is enough.
    pub fn from_arguments() -> Task {
        let given: Vec<String> = std::env::args().skip(1).collect();
        let usage = "usage: WORKLOAD DIRECTORY TABLE:COLUMNS WARM_UP SINGLES BATCH BATCHES [K]";
        assert!(given.len() >= 7, "{usage}");
        let number = |at: usize| given[at].parse::<usize>().expect(usage);
        let (table, columns) = given[2].split_once(':').expect(usage);
        Task {
            workload: given[0].clone(),
            directory: PathBuf::from(&given[1]),
            table: table.to_string(),
            columns: columns.parse().expect(usage),
            warm_up: number(3),
            singles: number(4),
            batch: number(5),
            batches: number(6),
            k: given.get(7).map_or(0, |k| k.parse().expect(usage)),
        }
    }

    /// A table's rows.
    pub fn rows(&self, name: &str, columns: usize) -> Rows {
        let path = self.directory.join(format!("{name}.i64"));
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let words = bytes.chunks_exact(8).map(|word| i64::from_le_bytes(word.try_into().unwrap()));
        Rows { words: words.collect(), columns }
    }
}

/// An incremental program over one table that changes.
pub trait Engine {
    /// A row comes (+1) or goes (-1), with the next step.
    fn change(&mut self, row: &[i64], weight: i64);
    /// Take the changes in, and finish.
    fn step(&mut self);
    /// The rows that the program maintains, in any order.
    fn answer(&mut self) -> Vec<Vec<i64>>;
}

/// Build, load, change, and print the report. `build` makes the engine: tables that never change are filled by it.
pub fn run<E: Engine>(task: &Task, build: impl FnOnce() -> E) {
    let rows = task.rows(&task.table, task.columns);
    let old = task.rows("old", task.columns);
    let new = task.rows("new", task.columns);
    let inputs = memory_mb("VmRSS");
    let (install, mut engine) = timed(build);
    let (load, ()) = timed(|| {
        rows.iter().for_each(|row| engine.change(row, 1));
        engine.step();
    });
    drop(rows);
    let mut singles = Clock::default();
    for at in 0..task.warm_up + task.singles {
        let (spent, ()) = timed(|| {
            engine.change(old.row(at), -1);
            engine.change(new.row(at), 1);
            engine.step();
        });
        if at >= task.warm_up {
            singles.add(&spent);
        }
    }
    let mut batches = Clock::default();
    let first = task.warm_up + task.singles;
    for begin in (first..).step_by(task.batch).take(task.batches) {
        let (spent, ()) = timed(|| {
            for at in begin..begin + task.batch {
                engine.change(new.row(at), 1);
                engine.change(old.row(at), -1);
            }
            engine.step();
        });
        batches.add(&spent);
    }
    let peak = memory_mb("VmHWM");
    write_answer(&task.directory.join("answer.i64"), engine.answer());
    let changes = (task.batch * task.batches) as f64;
    println!(
        concat!(
            "{{\"install\": {}, \"load\": {}, \"single\": {}, ",
            "\"batch\": {{\"changes_per_cpu_s\": {}, \"changes_per_s\": {}}}, ",
            "\"memory\": {{\"peak_mb\": {}, \"inputs_mb\": {}, \"net_mb\": {}}}}}"
        ),
        install.json(),
        load.json(),
        singles.json(),
        changes / batches.cpu.iter().sum::<f64>(),
        changes / batches.wall.iter().sum::<f64>(),
        peak,
        inputs,
        peak - inputs,
    );
}

struct Spent {
    cpu: f64,
    wall: f64,
}

impl Spent {
    fn json(&self) -> String {
        format!("{{\"cpu_s\": {}, \"wall_s\": {}}}", self.cpu, self.wall)
    }
}

#[derive(Default)]
struct Clock {
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

impl Clock {
    fn add(&mut self, spent: &Spent) {
        self.cpu.push(spent.cpu);
        self.wall.push(spent.wall);
    }

    /// Median, 99th percentile and highest in milliseconds, named as ours are.
    fn json(&self) -> String {
        let parts = [("cpu", &self.cpu), ("wall", &self.wall)].map(|(name, seconds)| {
            let mut ms: Vec<f64> = seconds.iter().map(|s| s * 1e3).collect();
            ms.sort_by(f64::total_cmp);
            let at = |share: f64| ms[((ms.len() - 1) as f64 * share).round() as usize];
            let mean = ms.iter().sum::<f64>() / ms.len() as f64;
            format!(
                "\"{name}_ms_median\": {}, \"{name}_ms_mean\": {mean}, \"{name}_ms_p99\": {}, \"{name}_ms_max\": {}",
                at(0.5),
                at(0.99),
                at(1.0)
            )
        });
        format!("{{{}}}", parts.join(", "))
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (Spent, T) {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let result = work();
    let spent = Spent { cpu: cpu_seconds() - cpu, wall: wall.elapsed().as_secs_f64() };
    (spent, result)
}

/// CPU seconds of the process, all threads together: what Python's `time.process_time` reads.
fn cpu_seconds() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, which is ours.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    assert_eq!(failed, 0, "the process has no CPU clock");
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn memory_mb(what: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(what));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|n| n.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}

fn write_answer(path: &Path, mut rows: Vec<Vec<i64>>) {
    rows.sort();
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
