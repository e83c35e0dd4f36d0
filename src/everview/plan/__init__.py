"""Logical plans: what is to be computed, independent of how.

In reading order:

    nodes         the nodes a plan is made of: immutable, compared by structure
    joins, aggregates, windows    higher-level operations, expressed in those nodes
    check, keys   static properties of a plan
    explain, descriptions  a plan as a readable list, and in words
    deep_recursion, substitute  walking over plans of any depth, and rewriting them
    prune         column pruning
    multiway      joins of many inputs: which are evaluated at once
    monotone, frontier, null_starts    loops that can be maintained as trees, also if names may be NULL
    strong        loops that find strong components, maintained by searches
    selection     loops of which only the best rows are read
    sizes         cardinality estimates
    serialisation  plans as bytes
    digest        a hash of a plan's meaning
    node_records, stable_repr, trust, legacy  plans as data; trusted functions; old catalog formats
    components, rewrites, topk, prefixes    dependency order; equivalent, cheaper plans
    loop_ways, narrowed_loops, ordered_loops, priority_classes    loops: their recursive rules, pushed-down conditions,
        evaluation order
    pre_aggregation, hot_keys  less traffic between shards; very frequent keys
    provenance, without_provenance, worlds    derivations as a column; rows that hold in smaller worlds
"""
