//! The reference: differential-dataflow through its own API, one worker, its examples' allocator.
//!
//! Every answer is kept in an arrangement, as a view of Everview is, so that it can be read at any time. Nodes are 32-bit
//! numbers, as in the crate's examples. Where the crate has the algorithm (`propagate_at`, `strongly_connected_at`), that
//! one is run; "prioritized" introduces labels by their magnitude, small ones first.

mod engine;
mod graphs;
mod joins;

use mimalloc::MiMalloc;
use protocol::Task;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let task = Task::from_arguments();
    timely::execute_directly(move |worker| match task.workload.as_str() {
        "join3" => protocol::run(&task, || joins::revenue(worker, &task)),
        graph => protocol::run(&task, || graphs::engine(worker, graph, task.k)),
    });
}
