//! A dataflow with one input that changes and one arrangement that holds the answer.

use differential_dataflow::ExchangeData;
use differential_dataflow::input::InputSession;
use differential_dataflow::operators::arrange::TraceAgent;
use differential_dataflow::trace::implementations::{KeySpine, ValSpine};
use differential_dataflow::trace::{Cursor, TraceReader};
use protocol::Engine;
use timely::dataflow::operators::probe::Handle;
use timely::progress::frontier::AntichainRef;
use timely::worker::Worker;

pub type Time = usize;
pub type Input<D> = InputSession<Time, D, isize>;

/// What is asked of an arrangement: to forget history, and to be read.
pub trait Kept {
    fn compact(&mut self, time: Time);
    fn rows(&mut self) -> Vec<Vec<i64>>;
}

/// Arranged by key, rows being keys and values.
pub struct ByKey<K: ExchangeData, V: ExchangeData>(
    pub TraceAgent<ValSpine<K, V, Time, isize>>,
    pub fn(&K, &V) -> Vec<i64>,
);

/// Arranged by themselves.
pub struct BySelf<K: ExchangeData>(pub TraceAgent<KeySpine<K, Time, isize>>, pub fn(&K) -> Vec<i64>);

impl<K: ExchangeData, V: ExchangeData> Kept for ByKey<K, V> {
    fn compact(&mut self, time: Time) {
        self.0.set_physical_compaction(AntichainRef::new(&[time]));
        self.0.set_logical_compaction(AntichainRef::new(&[time]));
    }

    fn rows(&mut self) -> Vec<Vec<i64>> {
        let (mut cursor, storage) = self.0.cursor();
        let found = cursor.to_vec(&storage, |k| k.clone(), |v| v.clone());
        present(found.into_iter().map(|((k, v), changes)| ((self.1)(&k, &v), changes)))
    }
}

impl<K: ExchangeData> Kept for BySelf<K> {
    fn compact(&mut self, time: Time) {
        self.0.set_physical_compaction(AntichainRef::new(&[time]));
        self.0.set_logical_compaction(AntichainRef::new(&[time]));
    }

    fn rows(&mut self) -> Vec<Vec<i64>> {
        let (mut cursor, storage) = self.0.cursor();
        let found = cursor.to_vec(&storage, |k| k.clone(), |_| ());
        present(found.into_iter().map(|((k, ()), changes)| ((self.1)(&k), changes)))
    }
}

fn present(found: impl Iterator<Item = (Vec<i64>, Vec<(Time, isize)>)>) -> Vec<Vec<i64>> {
    let mut rows = Vec::new();
    for (row, changes) in found {
        let count: isize = changes.iter().map(|(_, weight)| weight).sum();
        assert!(count >= 0, "{row:?} is there {count} times");
        rows.extend(std::iter::repeat_n(row, count as usize));
    }
    rows
}

/// A dataflow that runs.
pub struct Running<'w, D: ExchangeData> {
    pub worker: &'w mut Worker,
    pub input: Input<D>,
    pub probe: Handle<Time>,
    pub kept: Box<dyn Kept>,
    pub parse: fn(&[i64]) -> D,
    pub time: Time,
}

impl<D: ExchangeData> Engine for Running<'_, D> {
    fn change(&mut self, row: &[i64], weight: i64) {
        self.input.update((self.parse)(row), weight as isize);
    }

    fn step(&mut self) {
        self.time += 1;
        self.input.advance_to(self.time);
        self.input.flush();
        let (probe, time) = (&self.probe, &self.time);
        self.worker.step_while(|| probe.less_than(time));
        self.kept.compact(self.time);
    }

    fn answer(&mut self) -> Vec<Vec<i64>> {
        self.kept.rows()
    }
}
