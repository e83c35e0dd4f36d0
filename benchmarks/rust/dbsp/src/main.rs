//! The second reference: dbsp through its own API, one worker, for joins and aggregates.
//!
//! A worker of dbsp is a thread beside ours; the protocol counts the CPU time of both. The answer's changes are taken out
//! after every step, as a caller of dbsp does, and added up in a map.

use std::collections::BTreeMap;

use dbsp::operator::Max;
use dbsp::typed_batch::IndexedZSetReader;
use dbsp::utils::Tup2;
use dbsp::{DBSPHandle, IndexedZSetHandle, OrdIndexedZSet, OutputHandle, RootCircuit, Runtime, Stream};
use mimalloc::MiMalloc;
use protocol::{Engine, Task};

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

type Aggregates = OrdIndexedZSet<u32, i64>;
type Bought = Stream<RootCircuit, OrdIndexedZSet<u32, i64>>;

fn main() {
    let task = Task::from_arguments();
    match task.workload.as_str() {
        // Linear: a change of the sum follows from the change alone.
        "join3" => protocol::run(&task, || Running::new(&task, |bought| bought.aggregate_linear(|price| *price))),
        // Not linear: a price that goes may uncover another.
        "dearest" => protocol::run(&task, || Running::new(&task, |bought| bought.aggregate(Max))),
        unknown => panic!("no such workload: {unknown}"),
    }
}

/// Customers joined with orders joined with line items, aggregated by nation; line items change.
struct Running {
    circuit: DBSPHandle,
    items: IndexedZSetHandle<u32, Tup2<u32, i64>>,
    output: OutputHandle<Aggregates>,
    answer: BTreeMap<(u32, i64), i64>,
}

impl Running {
    fn new<F>(task: &Task, finish: F) -> Running
    where
        F: Fn(&Bought) -> Stream<RootCircuit, Aggregates> + Clone + Send + 'static,
    {
        let (circuit, (items, customers, orders, output)) = Runtime::init_circuit(1, move |circuit| {
            let (item, items) = circuit.add_input_indexed_zset::<u32, Tup2<u32, i64>>();
            let (customer, customers) = circuit.add_input_indexed_zset::<u32, u32>();
            let (order, orders) = circuit.add_input_indexed_zset::<u32, u32>();
            let ordered = item.join_index(&order, |_, item, customer| Some((*customer, item.1)));
            let bought = ordered.join_index(&customer, |_, price, nation| Some((*nation, *price)));
            Ok((items, customers, orders, finish(&bought).output()))
        })
        .expect("the circuit is built");
        for (name, into) in [("customer", &customers), ("orders", &orders)] {
            for row in task.rows(name, 2).iter() {
                into.push(row[0] as u32, (row[1] as u32, 1));
            }
        }
        Running { circuit, items, output, answer: BTreeMap::new() }
    }
}

impl Engine for Running {
    fn change(&mut self, row: &[i64], weight: i64) {
        self.items.push(row[0] as u32, (Tup2(row[1] as u32, row[2]), weight));
    }

    fn step(&mut self) {
        self.circuit.transaction().expect("the step is taken");
        for (nation, value, weight) in self.output.consolidate().iter() {
            *self.answer.entry((nation, value)).or_insert(0) += weight;
        }
    }

    fn answer(&mut self) -> Vec<Vec<i64>> {
        let present = self.answer.iter().filter(|(_, count)| **count != 0);
        present.map(|((nation, value), _)| vec![*nation as i64, *value]).collect()
    }
}
