//! Graph algorithms over edges that change.

use differential_dataflow::VecCollection;
use differential_dataflow::algorithms::graphs::propagate::propagate_at;
use differential_dataflow::algorithms::graphs::scc::{strongly_connected, strongly_connected_at};
use differential_dataflow::input::Input as _;
use differential_dataflow::operators::Iterate;
use timely::dataflow::operators::Probe;
use timely::dataflow::operators::probe::Handle;
use timely::worker::Worker;

use crate::engine::{ByKey, BySelf, Kept, Running, Time};

type Node = u32;
type Edge = (Node, Node);
type Edges<'s> = VecCollection<'s, Time, Edge>;

/// The engine of a workload: `arrange`, `bfs`, `reach`, `wcc-plain`, `wcc-prioritized`, `scc-plain`, `scc-prioritized`,
/// `kcore`.
pub fn engine<'w>(worker: &'w mut Worker, workload: &str, k: i64) -> Running<'w, Edge> {
    let mut probe = Handle::new();
    let (input, kept) = worker.dataflow::<Time, _, _>(|scope| {
        let (input, edges) = scope.new_collection::<Edge, isize>();
        let root = || scope.new_collection_from(Some(0 as Node)).1;
        let kept: Box<dyn Kept> = match workload {
            "arrange" => by_key(edges, &mut probe),
            "bfs" => by_key(distances(edges, root()), &mut probe),
            "reach" => nodes(reachable(edges, root()), &mut probe),
            "wcc-plain" => by_key(components(edges, |_| 0), &mut probe),
            "wcc-prioritized" => by_key(components(edges, |label| *label as u64), &mut probe),
            "scc-plain" => pairs(strongly_connected(edges), &mut probe),
            "scc-prioritized" => pairs(strongly_connected_at(edges, |label| *label as u64), &mut probe),
            "kcore" => pairs(core(edges, k as isize), &mut probe),
            unknown => panic!("no such workload: {unknown}"),
        };
        (input, kept)
    });
    let parse = |row: &[i64]| (row[0] as Node, row[1] as Node);
    Running { worker, input, probe, kept, parse, time: 0 }
}

fn by_key<'s>(rows: VecCollection<'s, Time, (Node, Node)>, probe: &mut Handle<Time>) -> Box<dyn Kept> {
    let arranged = rows.arrange_by_key();
    arranged.stream.probe_with(probe);
    Box::new(ByKey(arranged.trace, |node, value| vec![*node as i64, *value as i64]))
}

fn pairs<'s>(rows: Edges<'s>, probe: &mut Handle<Time>) -> Box<dyn Kept> {
    let arranged = rows.arrange_by_self();
    arranged.stream.probe_with(probe);
    Box::new(BySelf(arranged.trace, |(src, dst)| vec![*src as i64, *dst as i64]))
}

fn nodes<'s>(rows: VecCollection<'s, Time, Node>, probe: &mut Handle<Time>) -> Box<dyn Kept> {
    let arranged = rows.arrange_by_self();
    arranged.stream.probe_with(probe);
    Box::new(BySelf(arranged.trace, |node| vec![*node as i64]))
}

/// Hops from the nearest root: the crate's example `bfs`.
fn distances<'s>(edges: Edges<'s>, roots: VecCollection<'s, Time, Node>) -> VecCollection<'s, Time, (Node, u32)> {
    let start = roots.map(|node| (node, 0));
    start.clone().iterate(|scope, near| {
        let start = start.enter(scope);
        let edges = edges.enter(scope);
        near.join_map(edges, |_, hops, next| (*next, hops + 1))
            .concat(start)
            .reduce(|_, found, out| out.push((*found[0].0, 1)))
    })
}

/// What a root reaches.
fn reachable<'s>(edges: Edges<'s>, roots: VecCollection<'s, Time, Node>) -> VecCollection<'s, Time, Node> {
    roots.clone().iterate(|scope, reached| {
        let roots = roots.enter(scope);
        let edges = edges.enter(scope);
        reached.map(|node| (node, ())).join_map(edges, |_, (), next| *next).concat(roots).distinct()
    })
}

/// The smallest node of each node's component, labels being introduced in the order of `when`.
fn components<'s>(edges: Edges<'s>, when: impl Fn(&Node) -> u64 + Clone + 'static) -> Edges<'s> {
    let both = edges.clone().map(|(src, dst)| (dst, src)).concat(edges);
    let labels = both.clone().map(|(src, _)| (src, src)).distinct();
    propagate_at(both, labels, when)
}

/// The edges between nodes that have k or more of them.
fn core<'s>(edges: Edges<'s>, k: isize) -> Edges<'s> {
    edges.clone().iterate(|scope, left| {
        let edges = edges.enter(scope);
        let active = left
            .flat_map(|(src, dst)| [src, dst])
            .threshold(move |_, count| if *count >= k { 1 } else { 0 })
            .arrange_by_self();
        edges
            .arrange_by_key()
            .join_core(active.clone(), |src, dst, _| Some((*dst, *src)))
            .arrange_by_key()
            .join_core(active, |dst, src, _| Some((*src, *dst)))
    })
}
