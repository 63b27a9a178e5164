"""The files in `deployments/` agree with the program (names, pins, commands, flows) and with Kubernetes' schemas."""

import asyncio
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from prefect.client.schemas.schedules import CronSchedule
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.utilities.templating import apply_values

from flows.cli.command_table import COMMANDS
from flows.config.environment import HISTORY, PREFIX
from flows.config.settings import Settings
from flows.engine.retrying import DELAYS
from flows.orchestration.serving import deployments
from tests.operator import use_empty_folder

ROOT = Path(__file__).parents[2]
HERE = ROOT / "deployments"
KUBERNETES = HERE / "kubernetes"
# The oldest and the newest Kubernetes version that the manifests support.
KUBERNETES_VERSIONS = ("1.30", "1.37")
FILES = sorted(path for path in HERE.rglob("*") if path.is_file() and path.suffix in {".yaml", ".json", ".md", ""})
YAMLS = {path: [*yaml.safe_load_all(path.read_text(encoding="utf-8"))] for path in FILES if path.suffix == ".yaml"}
POOL = KUBERNETES / "prefect/pool.json"
TEMPLATE: dict[str, Any] = json.loads(POOL.read_text(encoding="utf-8"))
PREFECT: dict[str, Any] = YAMLS[HERE / "prefect.yaml"][0]
DEPLOYMENTS: list[dict[str, Any]] = PREFECT["deployments"]
SERVICES: dict[str, dict[str, Any]] = YAMLS[HERE / "compose.yaml"][0]["services"]
# The source of a secret may be stated, but not the secret.
SECRET = re.compile(r"(?i)(api_?key|password|secret|token|auth_string)$")
NO_VALUE = re.compile(r"|/run/secrets/\S+|\$\{\w+:[-?].*\}")


def _mappings(value: object) -> Iterator[dict[Any, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _mappings(inner)


def _merged(value: Any, common: Any) -> Any:  # noqa: ANN401 - any YAML
    """Merge a value into the common one, as kustomize does if lists have one element."""
    if isinstance(value, dict):
        return common | {name: _merged(each, common.get(name, each)) for name, each in value.items()}
    return [_merged(*pair) for pair in zip(value, common, strict=True)] if isinstance(value, list) else value


# What the cron jobs have in common.
[_JOB] = YAMLS[KUBERNETES / "cron/job.yaml"]
OBJECTS: list[dict[str, Any]] = [
    _merged(found, _JOB) if found["kind"] == "CronJob" else found
    for path, documents in YAMLS.items()
    if path.is_relative_to(KUBERNETES) and path.name not in {"kustomization.yaml", "job.yaml"}
    for found in documents
]
NAMED = {(one["kind"], one["metadata"]["name"]): one for one in OBJECTS}
CRON_JOBS = {name: one["spec"]["schedule"] for (kind, name), one in NAMED.items() if kind == "CronJob"}


def _pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for document in [*OBJECTS, TEMPLATE["job_configuration"]["job_manifest"]]:
        spec = document.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield document["metadata"].get("name", "pool"), spec["template"]["spec"]


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["containers"], *pod.get("initContainers", [])]


PODS = dict(_pods())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(HERE)))
def test_what_a_file_names_exists_and_no_secret_has_a_value(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    variables = {PREFIX + name.upper() for name in Settings.model_fields}
    assert set(re.findall(rf"\b{PREFIX}[A-Z0-9_]+\b", text)) <= variables
    # In backticks or after the service's name; elsewhere the word is ordinary text.
    assert set(re.findall(r"(?:`|worker )gramhouse ([a-z]+)\b", text)) <= set(COMMANDS)
    # Images are our own of this version, or pinned.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(re.findall(r"\bgramhouse:\d[\w.-]*", text)) <= {f"gramhouse:{project['version']}"}
    assert set(re.findall(r"\bpostgres:[\w.-]+", text)) <= {"postgres:17"}
    pinned = re.search(r"^prefect==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned
    assert all(tag.startswith(pinned[1]) for tag in re.findall(r"\bprefecthq/prefect:([\w.-]+)", text))
    for mapping in _mappings(YAMLS.get(path, [])):
        stated = {**mapping, mapping.get("name"): str(mapping.get("value", ""))}
        secrets = {name: value for name, value in stated.items() if SECRET.search(str(name)) and isinstance(value, str)}
        assert all(NO_VALUE.fullmatch(value) for value in secrets.values()), secrets


def test_the_deployments_of_a_work_pool_are_those_of_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_empty_folder(tmp_path, monkeypatch)
    for one, file in zip(asyncio.run(deployments(Settings())), DEPLOYMENTS, strict=True):
        for field in ("name", "entrypoint", "description", "parameters", "tags"):
            assert getattr(one, field) == file[field]
        schedules = [found.schedule for found in one.schedules or []]
        crons = [(schedule["cron"], schedule["timezone"]) for schedule in file["schedules"]]
        assert schedules == [CronSchedule(cron=cron, timezone=zone) for cron, zone in crons]
        limit = file.get("concurrency_limit", {})
        strategy = one.concurrency_options and one.concurrency_options.collision_strategy.value
        assert (one.concurrency_limit, strategy) == (limit.get("limit"), limit.get("collision_strategy"))
        # The entry point is a flow that takes its parameters; one that runs on request gets its others then.
        flow: Flow[..., Any] = load_flow_from_entrypoint(file["entrypoint"], use_placeholder_flow=False)
        assert set(file["parameters"]) <= set(flow.parameters.properties)
        more = {"options": {"everything": True}} if flow.name == "backfill" else {}
        flow.validate_parameters(file["parameters"] | more)
        assert not [name for name in json.dumps(flow.parameters.model_dump()).split('"') if SECRET.fullmatch(name)]


def test_services_listen_only_here_and_those_of_prefect_have_a_login_and_servers_delete_history() -> None:
    """Otherwise every web page open in a browser that reaches the server could run programs through it."""
    assert all(port.startswith("127.0.0.1:") for one in SERVICES.values() for port in one.get("ports", []))
    found = [service.get("environment", {}) for service in SERVICES.values()]
    containers = [one.get("env", []) for name, pod in PODS.items() if name != "pool" for one in _containers(pod)]
    found += [{one["name"]: one.get("value") or one.get("valueFrom") for one in env} for env in containers]
    clients = servers = 0
    for variables in found:
        is_server, is_client = "PREFECT_SERVER_UI_API_URL" in variables, "PREFECT_API_URL" in variables
        assert bool(variables.get("PREFECT_SERVER_API_AUTH_STRING")) == is_server, variables
        assert bool(variables.get("PREFECT_API_AUTH_STRING")) == is_client, variables
        assert not is_server or variables.items() >= HISTORY.items(), variables
        servers, clients = servers + is_server, clients + is_client
    assert (servers, clients) == (2, 2)


def test_every_manifest_and_job_of_the_pool_is_of_its_schema() -> None:
    given, properties = PREFECT["definitions"]["pool"]["job_variables"], TEMPLATE["variables"]["properties"]
    values = {name: one["default"] for name, one in properties.items() if "default" in one}
    values |= {name: value for name, value in given.items() if name in properties}
    values |= {"command": ["prefect"], "env": [], "labels": {}, "name": "run"}
    assert set(re.findall(r"\{\{ (\w+) \}\}", POOL.read_text(encoding="utf-8"))) == set(properties) <= set(values)
    job = apply_values(TEMPLATE["job_configuration"]["job_manifest"], values)
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "prefect-job", "Prefect's worker refuses any other"
    # Prefect's worker requires fields that Kubernetes does not have.
    assert job["spec"]["template"]["spec"].pop("completions") == job["spec"]["template"]["spec"].pop("parallelism") == 1
    for version in KUBERNETES_VERSIONS:
        for document in (*OBJECTS, job):
            kubernetes_validate.validate(document, version, strict=True)


REFERENCES = {"claimName": "PersistentVolumeClaim", "configMapRef": "ConfigMap"}
REFERENCES |= dict.fromkeys(("secretName", "secretKeyRef"), "Secret")


@pytest.mark.parametrize("name", sorted(PODS))
def test_a_pod_is_confined_and_refers_to_existing_objects(name: str) -> None:
    # The requirements of the `restricted` pod security level, and more.
    pod, context = PODS[name], PODS[name]["securityContext"]
    assert (pod["automountServiceAccountToken"], context["runAsNonRoot"]) == (False, True)
    assert (context["seccompProfile"], context["runAsUser"] > 0) == ({"type": "RuntimeDefault"}, True)
    assert pod["terminationGracePeriodSeconds"] > 10
    confined = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    for container in _containers(pod):
        assert container["securityContext"] == confined
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]
    claims = NAMED.get(("StatefulSet", name), {"spec": {"volumeClaimTemplates": []}})["spec"]["volumeClaimTemplates"]
    volumes = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}
    for mapping in _mappings(pod):
        for field, kind in REFERENCES.items():
            wanted = mapping.get(field)
            assert wanted is None or (kind, wanted["name"] if isinstance(wanted, dict) else wanted) in NAMED
        if isinstance(wanted := mapping.get("secretKeyRef"), dict):
            assert wanted["key"] in NAMED["Secret", wanted["name"]]["stringData"]
        assert {mount["name"] for mount in mapping.get("volumeMounts", [])} <= volumes


def test_the_cron_jobs_of_kubernetes_are_the_schedules_of_up() -> None:
    """Stories exist for 24 hours: without a separate job, a failed nightly run would lose a day of them."""
    assert {one["name"]: one["schedules"][0]["cron"] for one in DEPLOYMENTS if one["schedules"]} == CRON_JOBS
    assert {one["name"]: one["parameters"] for one in DEPLOYMENTS}["due"] == {"options": {"due": True}}
    retries = ["--json", "--retries", str(len(DELAYS))]
    commands = {name: PODS[name]["containers"][0]["args"] for name in CRON_JOBS}
    assert commands == {"nightly": ["sync", *retries], "due": ["sync", "--due", *retries]}


def test_the_key_is_mounted_where_the_settings_expect_it() -> None:
    settings = NAMED["ConfigMap", "gramhouse-settings"]["data"]
    Settings.model_validate({name.removeprefix(PREFIX).lower(): value for name, value in settings.items()})
    folder, _, key = settings["GRAMHOUSE_API_KEY_FILE"].rpartition("/")
    [secret] = [one for one in OBJECTS if one["kind"] == "Secret" and key in one["stringData"]]
    for name, pod in PODS.items():
        claims = [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v and v["name"] == "key"]
        mounts = [m["mountPath"] for c in pod["containers"] for m in c["volumeMounts"] if m["name"] == "key"]
        syncs = name in {"worker", "workers", "nightly", "due", "pool"}
        assert claims == [secret["metadata"]["name"]] * syncs
        assert mounts == [folder] * syncs
