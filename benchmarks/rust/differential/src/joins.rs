//! Customers joined with orders joined with line items; line items change.

use differential_dataflow::VecCollection;
use differential_dataflow::input::Input as _;
use differential_dataflow::operators::CountTotal;
use protocol::Task;
use timely::dataflow::operators::Probe;
use timely::dataflow::operators::probe::Handle;
use timely::worker::Worker;

use crate::engine::{ByKey, Kept, Running, Time};

/// Order, line, price in cents.
type Item = (u32, u32, i64);

/// The sum of prices by nation. Prices are accumulated in the differences, as the crate means sums to be taken.
pub fn revenue<'w>(worker: &'w mut Worker, task: &Task) -> Running<'w, Item> {
    running(worker, task, |bought, probe| {
        let sums = bought.explode(|(nation, price)| Some((nation, price as isize))).count_total();
        let arranged = sums.arrange_by_key();
        arranged.stream.probe_with(probe);
        Box::new(ByKey(arranged.trace, |nation, total: &isize| vec![*nation as i64, *total as i64]))
    })
}

/// `finish` gets (nation, price) of every line item.
fn running<'w, F>(worker: &'w mut Worker, task: &Task, finish: F) -> Running<'w, Item>
where
    F: for<'s> FnOnce(VecCollection<'s, Time, (u32, i64)>, &mut Handle<Time>) -> Box<dyn Kept>,
{
    let mut probe = Handle::new();
    let (input, mut customers, mut orders, kept) = worker.dataflow::<Time, _, _>(|scope| {
        let (input, items) = scope.new_collection::<Item, isize>();
        let (customers, customer) = scope.new_collection::<(u32, u32), isize>();
        let (orders, order) = scope.new_collection::<(u32, u32), isize>();
        let ordered = items.map(|(order, _, price)| (order, price)).join_map(order, |_, price, customer| (*customer, *price));
        let bought = ordered.join_map(customer, |_, price, nation| (*nation, *price));
        let kept = finish(bought, &mut probe);
        (input, customers, orders, kept)
    });
    for (name, into) in [("customer", &mut customers), ("orders", &mut orders)] {
        for row in task.rows(name, 2).iter() {
            into.insert((row[0] as u32, row[1] as u32));
        }
    }
    customers.close();
    orders.close();
    let parse = |row: &[i64]| (row[0] as u32, row[1] as u32, row[2]);
    Running { worker, input, probe, kept, parse, time: 0 }
}
