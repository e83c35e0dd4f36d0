"""The story `everview demo --story mentions` tells: who talks with whom, through a window that slides over time,
forwards and backwards.

Mentions (somebody answers or comments on somebody) are edges of a graph. Of those inside a time window, the strongly
connected components are kept up to date, with their sizes and the tag that is used most in each: a loop in a loop,
with joins and aggregates behind it. It is the demonstration of the differential dataflow paper (McSherry and others,
CIDR 2013, appendix), with questions and answers in place of tweets.

One idea per file, in reading order:

- `data`: the mentions, from a file or made up;
- `program`: the views;
- `window`: what a slide is, by hand and as a source of a pipeline;
- `stream`: new mentions as files, read by Spark Structured Streaming or by Everview itself;
- `recompute`: the same answers from scratch, to compare with;
- `record`: what each slide did;
- `dashboard`: the terminal;
- `page`: the picture that stays;
- `story`: the acts, in order.
"""

from everview.demo.mentions.story import run

__all__ = ["run"]
