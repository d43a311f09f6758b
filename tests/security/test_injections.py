"""Every string of the corpus in every field of every form, through the real API: all refused."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.platform.stack import Stack
from tests.airflow_world import FIELDS, FORMS, Runner, attacks
from tests.injections import CORPUS

pytestmark = [pytest.mark.platform, pytest.mark.slow, pytest.mark.timeout(3600)]

# As registration writes it, cut to what forms are made from: nothing has to flow for this.
MANIFEST = {
    "tables": [
        {"name": "bronze.trades", "kind": "stream"},
        {"name": "silver.trades", "kind": "rows", "revision": "a1",
         "inputs": {"t": "bronze.trades"}},
        {"name": "gold.sensor_5m", "kind": "window", "revision": "b2", "inputs": {}},
        {"name": "gold.stock_stats", "kind": "window", "revision": "c3",
         "inputs": {"t": "silver.trades"}},
    ]
}  # fmt: skip


@pytest.fixture(scope="module")
def airflow(base_settings, project: Path, tmp_path_factory) -> Iterator[Runner]:
    log = tmp_path_factory.mktemp("airflow") / "runner.log"
    with tempfile.TemporaryDirectory(prefix="penstock-forms-") as folder:
        offset = base_settings.port_offset + 1700
        stack = Stack(replace(base_settings, home=Path(folder).resolve(), port_offset=offset))
        runner = None
        try:
            stack.up(only=["postgres"])
            stack.settings.manifest.write_text(json.dumps(MANIFEST))
            runner = Runner(stack.settings, project, log)
            yield runner
        finally:
            if runner is not None:
                runner.stop()
            stack.down()


def params_of(airflow: Runner, dag: str) -> set[str]:
    return set(airflow.ask(get=f"/api/v2/dags/{dag}/details")["body"]["params"] or {})


def runs(airflow: Runner) -> int:
    return int(airflow.ask(get="/api/v2/dags/~/dagRuns?limit=1")["body"]["total_entries"])


def test_no_field_of_any_form_is_left_out(airflow: Runner) -> None:
    declared = {dag: params_of(airflow, dag) for dag in airflow.dags}
    assert {dag: names for dag, names in declared.items() if names} == {
        dag: set(names) for dag, names in FIELDS.items()
    }


def test_all_of_the_corpus_is_refused_everywhere(airflow: Runner) -> None:
    assert len(CORPUS) >= 200
    for dag, conf in FORMS.items():
        told = airflow.ask(trigger=dag, conf=conf)
        assert told["status"] == 200, (dag, told)
    before, began = runs(airflow), time.monotonic()
    answers: Counter[int] = Counter()
    passed = []
    for dag, field, value in attacks():
        told = airflow.ask(trigger=dag, conf={**FORMS[dag], field: value})
        answers[told["status"]] += 1
        if told["status"] != 400:
            passed.append((dag, field, str(value)[:80], told["status"], told["detail"][:120]))
    fields = sum(map(len, FIELDS.values()))
    print(
        f"{len(CORPUS)} strings, bare and in a list, in {fields} fields of {len(FIELDS)} forms: "
        f"{sum(answers.values())} requests, {dict(answers)}, {time.monotonic() - began:.0f} s"
    )
    assert passed == []
    assert sum(answers.values()) == 2 * len(CORPUS) * fields
    assert runs(airflow) == before, "no run came of it"
