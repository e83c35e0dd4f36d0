"""dbt-postgres on a small project: a view, a table made of it, and tests, built twice."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.server.pg.conftest import Running

DBT = os.environ.get("EVERVIEW_DBT") or shutil.which("dbt")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DBT is None, reason="dbt is not installed: pip install 'dbt-core<1.11' dbt-postgres"),
]

PROJECT = {
    "dbt_project.yml": 'name: tiny\nversion: "1.0"\nprofile: tiny\nmodel-paths: ["models"]\n',
    "models/by_shop.sql": "select shop, count(*) as n from sale group by shop\n",
    "models/big.sql": "{{ config(materialized='table') }}\nselect * from {{ ref('by_shop') }} where n >= 1\n",
    "models/schema.yml": "version: 2\nmodels:\n  - name: by_shop\n    columns:\n      - name: shop\n"
    "        data_tests: [not_null, unique]\n",
}


def test_a_project_is_built_and_built_again(fresh: Running, tmp_path: Path) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    where = f"host: 127.0.0.1, port: {fresh.port}, user: me, password: x, dbname: everview, schema: public, threads: 1"
    profile = f"tiny:\n  target: dev\n  outputs:\n    dev: {{type: postgres, {where}}}\n"
    (tmp_path / "profiles.yml").write_text(profile)
    for _ in range(2):
        done = subprocess.run(
            [str(DBT), "build", "--profiles-dir", "."], cwd=tmp_path, capture_output=True, text=True, timeout=300,
            env={**os.environ, "DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "PYTHONPATH": ""},
        )  # fmt: skip
        assert "PASS=4 WARN=0 ERROR=0 SKIP=0" in done.stdout, done.stdout[-3000:]
    assert fresh.do(lambda s: (sorted(s.tables), sorted(s.views))) == (["big", "sale"], ["by_shop", "total"])
    assert sorted(fresh.do(lambda s: s["big"].rows())) == [("north", 1), ("south", 1)]
