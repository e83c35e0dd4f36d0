"""SQL that may not use files."""

from __future__ import annotations

import pytest

import everview as ev


@pytest.mark.parametrize(
    "text",
    ["CREATE SOURCE s (x int) FROM 'in.csv'", "CREATE SINK FROM v INTO 'out.json'", "create source s from 'a.csv'"],
)
def test_files_can_be_switched_off(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("x\n1\n")
    with ev.connect(files=False) as db:
        db.view("v", db.table("t", {"x": int}).distinct())
        with pytest.raises(ev.EverviewError) as error:
            db.sql(text)
        assert error.value.code == "E_FORBIDDEN"
        assert db.sql("SELECT count(*) AS n FROM v").rows() == [(0,)]
    with ev.connect() as db:
        db.sql("CREATE SOURCE s (x int) FROM 'in.csv'; RUN UNTIL CAUGHT UP")
        assert db["s"].rows() == [(1,)]
    with pytest.raises(ev.InputError) as error:
        ev.connect(files="no")  # type: ignore[arg-type]
    assert error.value.code == "E_TYPE"
