"""Plans: what is to be computed, before anybody thinks about how.

In reading order:

    nodes         the nodes a plan is made of: immutable, compared by structure
    joins, aggregates, windows    what languages ask for, made of those nodes
    check, keys   what can be told of a plan without computing it
    explain, wording    a plan as a readable list, and in words
    deep, substitute    walking over plans of any depth, and rewriting them
    prune         columns that nobody reads go
    multiway      joins of many inputs: which are done at once
    monotone, frontier    loops that can be kept as trees
    selection     loops of which only the best rows are read
    sizes         how many rows there will be, roughly
    frozen        plans as bytes
    digest        what a plan says, as a hash
    written, spelled, trust, legacy    plans as data; whose functions they call; catalogues as they once were
    components, rewrites, topk, prefixes    the order of definitions; the same rows by less work
    loop_ways, narrowed_loops, ordered_loops    loops: their ways round, conditions pushed into them, their order
    frugal, hot            what shards send; keys that have very many rows
    provenance, without_provenance, worlds    derivations as a column; rows that hold in smaller worlds
"""
