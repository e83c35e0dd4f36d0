"""`everview run` and `check`: paths, options, failures and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import everview as ev
from everview.cli import app
from everview.io import doors

SQL = """
CREATE SOURCE sale FROM 'in' FORMAT csv WITH (key = 'id');
CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop;
CREATE SINK FROM total INTO 'out/total.csv' WITH (mode = 'snapshot');
"""
TOML = """
[source.sale]
format = "csv"
path = "in"
key = "id"
[view]
total = "SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop"
[sink.total]
format = "csv"
path = "out/total.csv"
mode = "snapshot"
"""
PYTHON = """
import everview as ev

def pipeline(db):
    db.source("sale", "in/a.csv", key="id")
    total = db.sql("CREATE VIEW total AS SELECT shop, sum(amount) AS amount FROM sale GROUP BY shop")
    total.write_to(ev.io.csv("out/total.csv"), mode="snapshot")
"""
FILES = {"p.sql": SQL, "p.toml": TOML, "p.py": PYTHON}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pipelines in a folder that is not the one they are run from."""
    here = tmp_path / "pipelines"
    (here / "in").mkdir(parents=True)
    (here / "in" / "a.csv").write_text("id,shop,amount\n1,north,5\n2,south,2\n3,north,1\n")
    for name, text in FILES.items():
        (here / name).write_text(text)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return here


def everview(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.parametrize("name", FILES)
def test_paths_are_relative_to_the_file(folder: Path, name: str) -> None:
    code, out, error = everview("run", folder / name, "--embedded", "--until", "caught_up")
    assert code == 0, error
    assert sorted((folder / "out" / "total.csv").read_text().split()[1:]) == ['"north",6', '"south",2']
    assert "sale 3 rows" in out and "everview: time" in error  # what was done, and how far it was
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("name", FILES)
def test_checking_touches_nothing(folder: Path, name: str) -> None:
    before = sorted(folder.rglob("*"))
    code, out, error = everview("check", folder / name)
    assert code == 0, error
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[0].startswith(f"{name}: on Spark, local[2]")
    assert any(line.startswith("sale csv") and "upsert by id: id int, shop str?" in line for line in lines)
    assert "total shop str?, amount int?" in lines
    assert any("out/total.csv, snapshot" in line for line in lines) and lines[-1] == "nothing was written"
    assert [p for p in sorted(folder.rglob("*")) if "__pycache__" not in str(p)] == before


def test_a_check_finds_mistakes(folder: Path) -> None:
    (folder / "p.sql").write_text(SQL.replace("sum(amount)", "sum(amuont)"))
    code, _, error = everview("check", folder / "p.sql")
    assert code == 1 and "p.sql, line 3" in error and "did you mean" in error
    (folder / "p.sql").write_text(SQL + "INSERT INTO sale VALUES (1, 'a', 3); SELECT nope FROM total;")
    assert "nope" in everview("check", folder / "p.sql")[2]
    (folder / "p.toml").write_text(TOML.replace('"csv"\npath = "in"', '"kafka"\nsubscribe = "x"'))
    error = everview("check", folder / "p.toml")[2]
    assert "E_SPARK" in error and "[source.sale]: only Spark knows the columns" in error and "schema =" in error
    assert "E_OPTION" in everview("check", folder / "p.sql", "--deep")[2]


def test_a_check_goes_on_where_the_columns_of_a_stream_are_told(folder: Path) -> None:
    told = '"kafka"\nsubscribe = "x"\nschema = { id = "int", shop = "str", amount = "int" }'
    more = '\n[sink.total]\nformat = "kafka"\nservers = "127.0.0.1:9092"\ntopic = "totals"\nkey = "shop"\n'
    text = TOML.replace('"csv"\npath = "in"', told).partition("[sink.")[0] + more
    (folder / "p.toml").write_text(text)
    code, out, error = everview("check", folder / "p.toml")
    assert code == 0, error
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "sale kafka through Spark, upsert by id: id int, shop str, amount int" in lines
    assert "total to kafka totals, changes" in lines
    (folder / "p.toml").write_text(text.replace("sum(amount)", "sum(amuont)"))
    assert "did you mean" in everview("check", folder / "p.toml")[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["in/a.csv"], "a.csv is data, not a pipeline"),
        (["in/a.csv"], "CREATE SOURCE a FROM"),
        (["p.sqll"], "did you mean 'p.sql'?"),
        (["p.sql", "--master", "nonsense"], "'nonsense' is not a master of Spark"),
        (["p.sql", "--master", "lokal[2]"], "did you mean 'local[2]'?"),
        (["p.sql", "--embedded", "--master", "local[2]"], "--embedded runs without Spark, so --master"),
        (["p.sql", "--embedded", "--shards", "2"], "--shards"),
        (["p.sql", "--embedded", "--conf", "a=b"], "--conf"),
        (["p.sql", "--embedded", "--trust"], "--trust is about"),
        (["p.sql", "--embedded", "--until", "soon"], "E_DURATION"),
        (["run.sql", "--embedded", "--until", "5s"], "says how long it runs"),
    ],
)
def test_mistakes_on_the_command_line(folder: Path, arguments: list[str], said: str) -> None:
    (folder / "run.sql").write_text(SQL + "RUN UNTIL CAUGHT UP;")
    code, _, error = everview("run", folder / arguments[0], *arguments[1:])
    assert code == 1 and said in error and "Traceback" not in error


@pytest.mark.parametrize("name", ["p.sql", "p.toml"])
def test_mistakes_are_told_before_spark_starts(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "spark_on_this_machine", lambda *_: pytest.fail("Spark is started"))
    (folder / name).write_text(FILES[name].replace("sum(amount)", "sum(amuont)"))
    code, _, error = everview("run", folder / name)
    assert code == 1 and "did you mean 'amount'" in error


def test_what_earlier_statements_would_have_done_is_not_a_mistake(folder: Path) -> None:
    """A check changes nothing, so there is no such row, and nobody has heard of what is ignored."""
    more = "INSERT INTO sale VALUES (7, 'west', 1); WHY total ('west', 1); SET work_mem = '1GB'; SUBSCRIBE TO total;"
    (folder / "p.sql").write_text(SQL + more)
    code, _, error = everview("check", folder / "p.sql")
    assert code == 0 and error.strip() == "notice: SET work_mem is ignored: it changes no answer here"


def test_a_file_that_relies_on_its_directory_is_not_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a directory has, only opening it tells."""

    def started(*_: object) -> None:
        raise ev.InputError("E_SPARK", "Spark is started", "")

    monkeypatch.setattr(doors, "spark_on_this_machine", started)
    (folder / "p.sql").write_text("CREATE VIEW more AS SELECT * FROM what_was_there")
    (folder / "state").mkdir()
    assert "Spark is started" in everview("run", folder / "p.sql", "--state", folder / "state")[2]


def test_mistakes_in_python_show_the_users_lines(folder: Path) -> None:
    (folder / "p.py").write_text("def pipeline(db):\n    return helper()\n\ndef helper():\n    return 1 / 0\n")
    code, _, error = everview("run", folder / "p.py", "--embedded")
    assert code == 1 and "ZeroDivisionError" in error and "line 5, in helper" in error and "cli" not in error
    (folder / "p.py").write_text("def pipeline(db:\n")
    assert "p.py, line 1" in everview("run", folder / "p.py", "--embedded")[2]


@pytest.mark.parametrize("name", ["p.sql", "p.py"])
def test_a_run_that_failed_can_be_repeated(folder: Path, name: str) -> None:
    """Whatever was made before the mistake is found again, or made anew if nothing is in it."""
    state = folder / "state"
    wrong = FILES[name].replace("sum(amount)", "max(shop)")
    broken = wrong.replace("out/total.csv", "in/a.csv/total.csv")  # the sink cannot be written
    (folder / name).write_text(broken)
    code, _, error = everview("run", folder / name, "--embedded", "--until", "caught_up", "--state", state)
    assert code == 1 and "Traceback" not in error
    (folder / name).write_text(FILES[name])
    code, _, error = everview("run", folder / name, "--embedded", "--until", "caught_up", "--state", state)
    assert code == 0, error
    assert sorted((folder / "out" / "total.csv").read_text().split()[1:]) == ['"north",6', '"south",2']


def test_looking_at_a_directory(folder: Path) -> None:
    state = folder / "state"
    assert everview("run", folder / "p.sql", "--embedded", "--until", "caught_up", "--state", state)[0] == 0
    out = everview("ls", state)[1]
    assert "table  sale   3 rows  (id int, shop str?, amount int?)" in out and "view   total  2 rows  (" in out
    assert "Reduce" in everview("explain", state, "total")[1]
    lines = everview("subscribe", state, "total", "--for", "300ms")[1].splitlines()
    assert sorted(line.split("  ")[1] for line in lines) == ["north, 6", "south, 2"]
    assert '"_diff": 1' in everview("subscribe", state, "sale", "--for", "300ms", "--json")[1]
    assert everview("subscribe", state, "total", "--for", "300ms", "--no-snapshot")[1] == ""
    for arguments in (["ls", folder / "stat"], ["explain", state, "totl"], ["subscribe", state, "totl"]):
        code, _, error = everview(*arguments)
        assert code == 1 and "did you mean" in error and "--create" not in error


def test_subscribing_while_another_process_writes(folder: Path) -> None:
    with ev.connect(folder / "state") as db:
        t = db.table("t", {"x": int})
        t.insert([(1,)])
        heard: list[str] = []
        with ev.connect(folder / "state", read_only=True) as reader:
            from everview.sql.shell import live_display

            t.insert([(2,)])
            live_display.follow(reader, "t", heard.append, seconds=0.5)
    assert sorted(heard) == ["t @1 +1  1", "t @2 +1  2"] or sorted(heard) == ["t @2 +1  1", "t @2 +1  2"]
