"""Airflow in a process of its own, for tests: runs DAGs with `dag.test()`, answers what they ask.

Reads one JSON object a line and writes one for each:
`{"dag": "reprocess", "conf": {...}, "answer": "Approve", "done": "exports"}` runs a DAG, gives
that answer when a person is asked, and takes tasks that match `done` for done;
`{"trigger": "reprocess", "conf": {...}}` is a call of the real API, and comes to its status;
`{"get": "/api/v2/dags"}` is any other question to it.

Airflow builds its server anew for every task of a test run, which takes seconds; here it is built
once. It also listens at the stack's own address, where tasks leave their notes.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

WAITING = "awaiting_input"


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Airflow prints is no answer
    from airflow.sdk.execution_time import supervisor

    supervisor.in_process_api_server = functools.cache(supervisor.in_process_api_server)
    bag, api = _dags(), _api()
    out.write(json.dumps({"dags": sorted(bag)}) + "\n")
    out.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        told = _told(bag, api, asked)
        out.write(json.dumps(told, default=str) + "\n")
        out.flush()


def _told(bag: dict[str, Any], api: Any, asked: dict[str, Any]) -> dict[str, Any]:
    if "trigger" in asked:
        return _triggered(api, asked)
    if "get" in asked:
        answer = api.get(asked["get"])
        return {"status": answer.status_code, "body": answer.json()}
    return _run(bag, api, asked)


def _dags() -> dict[str, Any]:
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import BundleDagBag, sync_bag_to_db

    manager = DagBundlesManager()
    manager.sync_bundles_to_db()
    (bundle,) = manager.get_all_dag_bundles()
    bag = BundleDagBag(bundle.path, bundle_path=bundle.path, bundle_name=bundle.name)
    assert not bag.import_errors, bag.import_errors
    sync_bag_to_db(bag, bundle.name, bundle.version)
    return dict(bag.dags)


def _api() -> Any:
    """The real API, asked as an administrator."""
    from airflow.api_fastapi.app import create_app, get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from fastapi.testclient import TestClient

    app = create_app()
    _listen(app)
    tester = SimpleAuthManagerUser(username="tester", role="admin")
    token = get_auth_manager().generate_jwt(tester)
    return TestClient(app, headers={"Authorization": f"Bearer {token}"})


def _listen(app: Any) -> None:
    """The server where the stack's settings say it is, for as long as this process lives."""
    import uvicorn
    from airflow.configuration import conf

    port = conf.getint("api", "port")
    config = uvicorn.Config(app, host="127.0.0.1", port=port, lifespan="off", log_level="warning")
    threading.Thread(target=uvicorn.Server(config).run, daemon=True).start()


def _triggered(api: Any, asked: dict[str, Any]) -> dict[str, Any]:
    body = {"logical_date": None, "conf": asked["conf"]}
    answer = api.post(f"/api/v2/dags/{asked['trigger']}/dagRuns", json=body)
    return {"status": answer.status_code, "detail": answer.text[:300]}


def _run(bag: dict[str, Any], api: Any, asked: dict[str, Any]) -> dict[str, Any]:
    dag, stop = bag[asked["dag"]], threading.Event()
    if asked.get("answer"):
        arguments = (api, dag.dag_id, asked["answer"], stop)
        threading.Thread(target=_answer, args=arguments, daemon=True).start()
    try:
        run = dag.test(run_conf=asked["conf"], mark_success_pattern=asked.get("done") or None)
    finally:
        stop.set()
    found = api.get(f"/api/v2/dags/{dag.dag_id}/dagRuns/{run.run_id}/taskInstances").json()
    tasks = {
        f"{t['task_id']}[{t['map_index']}]" if t["map_index"] >= 0 else t["task_id"]: t["state"]
        for t in found["task_instances"]
    }
    note = api.get(f"/api/v2/dags/{dag.dag_id}/dagRuns/{run.run_id}").json().get("note") or ""
    notes = {t["task_id"]: t.get("note") or "" for t in found["task_instances"]}
    return {
        "state": str(run.state), "run": run.run_id, "tasks": tasks, "note": note, "notes": notes,
    }  # fmt: skip


def _answer(api: Any, dag_id: str, chosen: str, stop: threading.Event) -> None:
    """Answer the first question of the newest run, as somebody does in the UI."""
    while not stop.is_set():
        time.sleep(1)
        found = api.get(f"/api/v2/dags/{dag_id}/dagRuns/~/hitlDetails").json()
        for detail in found.get("hitl_details", []):
            task = detail["task_instance"]
            if detail["response_received"] or task["state"] != WAITING:
                continue
            place = (
                f"/api/v2/dags/{dag_id}/dagRuns/{task['dag_run_id']}/taskInstances/"
                f"{task['task_id']}/-1/hitlDetails"
            )
            api.patch(place, json={"chosen_options": [chosen], "params_input": {}})


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
