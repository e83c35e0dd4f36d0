"""Run all benchmarks (or some), each in a process of its own; keep their JSON and a table of what matters.

    python benchmarks/run.py                   # everything: about half an hour
    python benchmarks/run.py --only reach,wcc  # names or beginnings of names
    python benchmarks/run.py --quick           # tiny sizes: does everything run and give right answers?
    python benchmarks/run.py --reference       # in turns with the Rust crates, built first (see reference.py)

The JSON goes to `benchmarks/results/`, which git ignores; a dated table is added to `benchmarks/HISTORY.md`. Figures
worth quoting go to `benchmarks/figures/`, from which `make_results.py` writes RESULTS.md; `--reference` writes its
comparison there itself, and runs only benchmarks that have a rival.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reference

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
TABLE = HERE / "HISTORY.md"


@dataclass(frozen=True)
class Case:
    """One run: its name, the script, its arguments."""

    name: str
    script: str
    arguments: tuple[str, ...] = ()


def _graph_cases(script: str, graphs: str, *arguments: str, name: str = "") -> list[Case]:
    return [Case(f"{name or script}-{g}", script, ("--graph", g, *arguments)) for g in graphs]


CASES: list[Case] = [
    *_graph_cases("arrange", "ab"),
    *_graph_cases("arrange", "a", "--by", "dst", name="arrange-reverse"),
    *_graph_cases("bfs", "abc"),
    *_graph_cases("bfs", "a", "--spelling", "iterate", name="bfs-iterate"),
    *_graph_cases("reach", "abc"),
    *_graph_cases("wcc", "abc", "--order", "prioritized", name="wcc-prioritized"),
    *_graph_cases("wcc", "a", "--order", "prioritized", "--start", "pairs", name="wcc-prioritized-pairs"),
    *_graph_cases("wcc", "ac", "--order", "plain", name="wcc-plain"),
    *_graph_cases("wcc", "a", "--order", "plain", "--spelling", "fixpoint", name="wcc-plain-fixpoint"),
    *_graph_cases("wcc", "abc", "--order", "library", name="wcc-library"),
    Case("wcc-library-cnr", "wcc", ("--graph", "cnr", "--few", "--order", "library")),
    *_graph_cases("scc", "a"),
    *_graph_cases("scc", "a", "--order", "plain", name="scc-plain"),
    *_graph_cases("scc", "abc", "--order", "hashed", name="scc-hashed"),
    Case("scc-hashed-cnr", "scc", ("--graph", "cnr", "--few", "--order", "hashed")),
    *_graph_cases("kcore", "ac"),
    *_graph_cases("sssp", "abc"),
    *_graph_cases("khop", "abc"),
    *_graph_cases("forest", "ac", "--few"),
    *_graph_cases("pagerank", "abc", "--few"),
    *_graph_cases("pagerank", "abc", "--few", "--unit", "100", name="pagerank-coarse"),
    *(Case(f"{name}-cnr", name, ("--graph", "cnr", "--few")) for name in ("wcc", "scc", "sssp", "khop", "pagerank")),
    Case("pagerank-coarse-cnr", "pagerank", ("--graph", "cnr", "--few", "--unit", "100")),
    *_graph_cases("triangles", "c"),
    *_graph_cases("triangles", "c", "--order", "bc-ac-ab", name="triangles-second-order"),
    *_graph_cases("triangles", "c", "--order", "ac-ab-bc", name="triangles-third-order"),
    *_graph_cases("triangles", "c", "--edges", "400000", name="triangles-400k"),
    *_graph_cases("triangles", "c", "--edges", "400000", "--plan", "binary", name="triangles-400k-binary"),
    Case("join3", "join3"),
    Case("join3-max", "join3", ("--aggregate", "max")),
    Case("join3-best", "join3", ("--plan", "best")),
    Case("join3-max-best", "join3", ("--aggregate", "max", "--plan", "best")),
    Case("start", "start", ("--cold",)),
    Case("epochs", "epochs"),
    Case("install", "install"),
    Case("wide", "wide"),
    Case("proportional", "proportional"),
    Case("sharing", "sharing"),
    Case("merge", "merge"),
    Case("threads", "threads"),
    Case("scaling", "scaling"),
    Case("rules", "rules"),
    Case("figure1", "figure1"),
    Case("interactive", "interactive"),
    Case("provenance", "provenance"),
    Case("provenance_series", "provenance_series"),
    Case("shipping", "shipping"),
    Case("what_if", "what_if"),
    Case("why", "why"),
    Case("patterns", "patterns"),
    Case("durable", "durable"),
    Case("ingest", "ingest"),
    Case("lean", "lean"),
    Case("pairs", "pairs"),
    Case("questions", "questions"),
    Case("adaptive", "adaptive"),
    Case("tpch", "tpch"),
    Case("server", "server"),
    Case("tenants", "tenants"),
    Case("values", "values"),
    Case("values_sockets", "values_sockets"),
    Case("pgwire", "pgwire"),
    Case("oneoff", "oneoff"),
    Case("nexmark", "nexmark"),
]


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for; gives the number of benchmarks that failed."""
    options = _options(arguments)
    chosen = [c for c in CASES if not options.only or any(c.name.startswith(o) for o in options.only.split(","))]
    if options.quick:  # one graph is as good as another at this size
        chosen = list({(c.script, c.arguments[2:]): c for c in reversed(chosen)}.values())[::-1]
    if options.list or not chosen:
        print("\n".join(c.name for c in (chosen or CASES)))
        return 0 if options.list else 2
    if options.reference:
        return _compare(chosen, options)
    outcomes = [(case, _run(case, options)) for case in chosen]
    if not options.quick and not options.no_record:
        _record([(case, report) for case, report in outcomes if "failed" not in report])
    return sum("failed" in report for _, report in outcomes)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="names or beginnings of names, with commas between")
    parser.add_argument("--quick", action="store_true", help="tiny sizes; nothing is recorded")
    parser.add_argument("--list", action="store_true", help="only name the benchmarks")
    parser.add_argument("--no-peers", action="store_true", help="do not run other software")
    parser.add_argument("--spark", action="store_true", help="also stock Spark from scratch, on small graphs")
    parser.add_argument("--reference", action="store_true", help="in turns with the Rust crates, as ratios")
    parser.add_argument("--crates", default=",".join(reference.CRATES), help="which of them, with a comma between")
    parser.add_argument("--turns", type=int, default=3, help="turns of each with --reference")
    parser.add_argument("--no-record", action="store_true", help="do not add to HISTORY.md")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which a benchmark has failed")
    return parser.parse_args(arguments)


def _run(case: Case, options: argparse.Namespace, *more: str) -> dict[str, Any]:
    """One benchmark's report, or {"failed": why}."""
    wanted = {"--quick": options.quick, "--no-peers": options.no_peers, "--spark": options.spark}
    flags = [flag for flag, on in wanted.items() if on]
    command = [sys.executable, str(HERE / f"{case.script}.py"), *case.arguments, *flags, *more]
    started = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, check=False)
        report = json.loads(done.stdout) if done.returncode == 0 else {"failed": done.stderr.strip()[-2000:]}
    except subprocess.TimeoutExpired:
        report = {"failed": f"not finished after {options.timeout:.0f} s"}
    report["case"] = case.name
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{case.name}{'-quick' if options.quick else ''}.json").write_text(json.dumps(report, indent=1))
    print(f"{case.name:24} {time.perf_counter() - started:6.1f} s  {_line(report)}", flush=True)
    return report


def _line(report: dict[str, Any]) -> str:
    if "failed" in report:
        return f"FAILED: {report['failed']}"
    if "single" not in report:
        return ", ".join(f"{k} {v}" for k, v in _facts(report).items())
    return (
        f"load {report['load']['cpu_s']:.3g} s CPU, single {report['single']['cpu_ms_median']:.3g} ms, "
        f"batch {report['batch']['changes_per_cpu_s']:,.0f}/s, net {report['memory']['net_mb']:.0f} MB"
    )


def _facts(report: dict[str, Any]) -> dict[str, Any]:
    """The numbers of a report that has no single changes, by dotted name; of latencies, the CPU medians and p99."""
    skip = {"machine", "stats", "quick", "benchmark", "case", "check", "graph", "samples_mb", "wall_s"}
    found: dict[str, Any] = {}

    def collect(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key not in skip and not key.startswith("wall_ms") and key not in ("cpu_ms_mean", "cpu_ms_max"):
                    collect(f"{name}.{key}" if name else key, inner)
        elif isinstance(value, list):
            for inner in value:  # points of a curve: named by what was varied, which comes first
                if isinstance(inner, dict):
                    collect(f"{name}[{next(iter(inner.values()))}]", inner)
        elif isinstance(value, int | float | str):
            found[name] = value

    collect("", report)
    return found


# --------------------------------------------------------------------------------------------- --reference

RIVALRY = (
    "arrange-a", "arrange-b", "bfs-a", "bfs-b", "bfs-c", "reach-a", "reach-c", "wcc-prioritized-a", "wcc-prioritized-c",
    "wcc-library-a", "wcc-library-c", "wcc-plain-a", "scc-a", "scc-hashed-a", "scc-plain-a", "kcore-a", "kcore-c",
    "join3", "join3-max", "join3-best", "join3-max-best",
)  # fmt: skip
"""What `--reference` runs unless told otherwise; a rival's plain loops make the others too long."""
FIGURE = HERE / "figures" / "03-rust.json"


def _compare(chosen: list[Case], options: argparse.Namespace) -> int:
    """Ours and theirs in turns, case by case; the comparison is printed, and written for RESULTS.md."""
    wanted = chosen if options.only or options.quick else [c for c in chosen if c.name in RIVALRY]
    rows: list[tuple[str, str, dict[str, Any]]] = []
    machines: list[dict[str, Any]] = []
    failed = 0
    programs: dict[str, Path] = {}
    for crate in options.crates.split(","):
        try:
            programs[crate] = reference.build(crate)
        except reference.Missing as error:
            print(f"{crate:24} MISSING: {error}", flush=True)
            failed += 1
    for case in wanted:
        with tempfile.TemporaryDirectory(prefix="everview-reference-") as directory:
            try:
                found, machine = _in_turns(case, programs, Path(directory), options)
            except (subprocess.TimeoutExpired, SystemExit) as error:
                print(f"{case.name:24} FAILED: {error}", flush=True)
                failed += 1
                continue
        machines.append(machine)
        for crate, one in found.items():
            rows.append((case.name, crate, one))
            print(f"{case.name:24} {crate:13} {json.dumps(one)}", flush=True)
    if rows and not options.quick and not options.no_record:
        loads = [machine["load_average"][0] for machine in machines]
        section = reference.section(rows, machines[0], f"{min(loads):.1f} to {max(loads):.1f}")
        FIGURE.write_text(json.dumps(section, indent=1) + "\n")
    return failed


def _in_turns(
    case: Case, programs: dict[str, Path], directory: Path, options: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, Any]]:
    """By crate: best figures of both and their ratios; and the machine as our first turn saw it."""
    ours: list[dict[str, float]] = []
    theirs: dict[str, list[dict[str, float]]] = {}
    machine: dict[str, Any] = {}
    for turn in range(options.turns):
        report = _run(case, options, "--no-peers", *(("--export", str(directory)) if turn == 0 else ()))
        if "failed" in report:
            raise SystemExit(report["failed"])
        machine = machine or report["machine"]
        ours.append(reference.figures(report))
        for crate, workload in json.loads((directory / "task.json").read_text())["rivals"]:
            if crate in programs:
                turned = reference.run(programs[crate], workload, directory, options.timeout)
                theirs.setdefault(crate, []).append(reference.figures(turned))
    found = {}
    for crate, turns in theirs.items():
        pair = reference.best(ours), reference.best(turns)
        found[crate] = {"ratio": reference.ratios(*pair), "ours": pair[0], "theirs": pair[1]}
    return found, machine


# -------------------------------------------------------------------------------------------- HISTORY.md


_INTRODUCTION = """# Measurements, as they were made

Each section is one run of `benchmarks/run.py` on a shared machine of two cores: trust CPU seconds and medians. How
everything is measured: `common.py`. In brackets (until 2026-11-17): times as good as the Rust differential-dataflow
crate was on another day; since then `run.py --reference` compares both in one run. Peak memory is that of the whole
process; net memory is without interpreter and imported libraries. Load includes installing the views. Columns named
after other programs are the CPU seconds they need to compute the answer anew.
"""


def _record(outcomes: list[tuple[Case, dict[str, Any]]]) -> None:
    if not outcomes:
        return
    machine = outcomes[0][1]["machine"]
    commits = list(dict.fromkeys(report["machine"]["commit"] for _, report in outcomes))
    span = commits[0] if len(commits) == 1 else f"{commits[0]} to {commits[-1]}"
    loads = [report["machine"]["load_average"][0] for _, report in outcomes]
    sorts = [report["machine"]["calibration"]["numpy_sort_cpu_s"] for _, report in outcomes]
    text = TABLE.read_text() if TABLE.exists() else _INTRODUCTION
    text += (
        f"\n## {datetime.date.today().isoformat()}, commit {span}\n\n"
        f"Load average {min(loads):.1f} to {max(loads):.1f}; sorting 10 M int64 took {min(sorts):.2f} to "
        f"{max(sorts):.2f} s CPU; Python {machine['python']}, Numba {machine['numba']}.\n"
    )
    text += "".join(map(_table, _by_script([(c, r) for c, r in outcomes if "single" in r])))
    for case, report in outcomes:
        if "single" not in report:
            text += f"\n- **{case.name}**: " + ", ".join(f"{k} {v}" for k, v in _facts(report).items())
    TABLE.write_text(text + "\n")


Outcomes = list[tuple[Case, dict[str, Any]]]


def _by_script(measured: Outcomes) -> list[Outcomes]:
    """One table for each script whose answer other programs computed too, one for all the others."""
    found: dict[str, Outcomes] = {}
    for case, report in measured:
        found.setdefault(case.script if _seconds(report) else "", []).append((case, report))
    return list(found.values())


def _table(measured: Outcomes) -> str:
    peers = list(dict.fromkeys(name for _, report in measured for name in _seconds(report)))
    columns = ("benchmark", "load CPU s", "single median ms (p99)", "changes/s in batches", "peak MB", "net MB", *peers)
    head = f"\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n"
    return head + "".join(_row(case, report, peers) for case, report in measured)


def _seconds(report: dict[str, Any]) -> dict[str, str]:
    """What other programs took from scratch: CPU s; for Spark, which uses all processors, wall-clock s and CPU s."""
    found = {name: f"{peer['cpu_s']:.2g}" for name, peer in report["peers"].items() if "cpu_s" in peer}
    if "spark" in found:
        spark = report["peers"]["spark"]
        found["spark"] = f"{spark['wall_s']:.3g} wall, {spark['cpu_s']:.3g} CPU"
    return found


def _row(case: Case, report: dict[str, Any], peers: list[str]) -> str:
    single, memory, seconds = report["single"], report["memory"], _seconds(report)
    cells = (
        case.name,
        f"{report['install']['cpu_s'] + report['load']['cpu_s']:.3g}",
        f"{single['cpu_ms_median']:.3g} ({single['cpu_ms_p99']:.3g})",
        f"{report['batch']['changes_per_cpu_s']:,.0f}",
        f"{memory['peak_mb']:.0f}",
        f"{memory['net_mb']:.0f}",
        *(seconds.get(name, "") for name in peers),
    )
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
