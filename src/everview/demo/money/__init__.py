"""The story `everview demo` tells: where does the money go?

Accounts pay each other and the shops, with cards and phones that some of them share. Payments arrive through a Spark
stream, are cancelled, and leave a window of 30 days as the clock goes on. Kept up to date all the while: the rings of
accounts that hang together, what each ring moves, who pays a sanctioned account within six hops, and by which way.

One idea per file, in reading order:

- `program`: the tables and views, in SQL and with the graph library; the file to read if you read only one;
- `data`: what happens, from `plot.csv`, a file of yours, and
- `crowd`: twelve thousand people who know nothing of the story;
- `stream`: payments as files, read by Spark Structured Streaming or by Everview itself, and the watch that times them;
- `recompute`: the same answers in plain Python, from scratch, to compare with;
- `supposition`: what if a payment had not been made;
- `words`: what a change means;
- `record`: what each moment did;
- `digits`, `screen`: the terminal;
- `page`: the picture that stays;
- `story`: the acts, in order.
"""

from everview.demo.money.story import run

__all__ = ["run"]
