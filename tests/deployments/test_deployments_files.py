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
ORDINARY = {".yaml", ".json", ".md", ""}
FILES = sorted(path for path in HERE.rglob("*") if path.is_file() and path.suffix in ORDINARY)
YAMLS = [path for path in FILES if path.suffix == ".yaml"]
KUSTOMIZATIONS = sorted(KUBERNETES.rglob("kustomization.yaml"))
# What the cron jobs have in common.
JOB = KUBERNETES / "cron/job.yaml"
MANIFESTS = sorted(set(KUBERNETES.rglob("*.yaml")) - {*KUSTOMIZATIONS, JOB})
POOL = KUBERNETES / "prefect/pool.json"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMAGE = f"gramhouse:{PROJECT['version']}"
# The source of a secret may be stated, but not the secret.
SECRET = re.compile(r"(?i)(api_?key|password|secret|token|auth_string)$")
NO_VALUE = re.compile(r"|/run/secrets/\S+|\$\{\w+:[-?].*\}")


def _name(path: Path) -> str:
    return str(path.relative_to(HERE))


def _documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


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


PREFECT: dict[str, Any] = _documents(HERE / "prefect.yaml")[0]
DEPLOYMENTS: list[dict[str, Any]] = PREFECT["deployments"]
COMPOSE: dict[str, Any] = _documents(HERE / "compose.yaml")[0]
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
[_JOB] = _documents(JOB)
OBJECTS: list[dict[str, Any]] = [
    _merged(found, _JOB) if found["kind"] == "CronJob" else found for path in MANIFESTS for found in _documents(path)
]
TEMPLATE: dict[str, Any] = json.loads(POOL.read_text(encoding="utf-8"))


def _pods() -> Iterator[tuple[str, dict[str, Any]]]:
    for document in [*OBJECTS, TEMPLATE["job_configuration"]["job_manifest"]]:
        spec = document.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield document["metadata"].get("name", "pool"), spec["template"]["spec"]


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["containers"], *pod.get("initContainers", [])]


PODS = dict(_pods())
CRON_JOBS = {one["metadata"]["name"]: one["spec"]["schedule"] for one in OBJECTS if one["kind"] == "CronJob"}


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_settings_and_commands_that_are_named_exist_and_images_are_our_own_or_one_pinned_postgres(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    settings = {PREFIX + name.upper() for name in Settings.model_fields}
    assert set(re.findall(rf"\b{PREFIX}[A-Z0-9_]+\b", text)) <= settings
    # In backticks or after the service's name; elsewhere the word is ordinary text.
    assert set(re.findall(r"(?:`|worker )gramhouse ([a-z]+)\b", text)) <= set(COMMANDS)
    assert set(re.findall(r"\bgramhouse:\d[\w.-]*", text)) <= {IMAGE}
    assert set(re.findall(r"\bpostgres:[\w.-]+", text)) <= {"postgres:17"}
    pinned = re.search(r"^prefect==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert pinned
    assert all(tag.startswith(pinned[1]) for tag in re.findall(r"\bprefecthq/prefect:([\w.-]+)", text))


@pytest.mark.parametrize("path", YAMLS, ids=_name)
def test_no_secret_has_a_value(path: Path) -> None:
    for mapping in _mappings(_documents(path)):
        for name, value in mapping.items():
            if SECRET.search(str(name)) and isinstance(value, str):
                assert NO_VALUE.fullmatch(value), f"{name}: {value}"
        if SECRET.search(str(mapping.get("name", ""))) and "value" in mapping:
            assert NO_VALUE.fullmatch(str(mapping["value"])), mapping


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=[one["name"] for one in DEPLOYMENTS])
def test_every_entrypoint_is_a_flow_that_takes_its_parameters(deployment: dict[str, Any]) -> None:
    flow: Flow[..., Any] = load_flow_from_entrypoint(deployment["entrypoint"], use_placeholder_flow=False)
    given = deployment["parameters"]
    assert set(given) <= set(flow.parameters.properties)
    # A deployment that runs on request gets its other parameters then.
    more = {"options": {"everything": True}} if flow.name == "backfill" else {}
    flow.validate_parameters(given | more)
    assert not [name for name in json.dumps(flow.parameters.model_dump()).split('"') if SECRET.fullmatch(name)]


def test_work_pool_deployments_equal_those_of_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_empty_folder(tmp_path, monkeypatch)
    served = asyncio.run(deployments(Settings()))
    assert len(served) == len(DEPLOYMENTS)
    for one, file in zip(served, DEPLOYMENTS, strict=True):
        for field in ("name", "entrypoint", "description", "parameters", "tags"):
            assert getattr(one, field) == file[field]
        schedules = [found.schedule for found in one.schedules or []]
        crons = [(schedule["cron"], schedule["timezone"]) for schedule in file["schedules"]]
        assert schedules == [CronSchedule(cron=cron, timezone=zone) for cron, zone in crons]
        limit = file.get("concurrency_limit", {})
        strategy = one.concurrency_options and one.concurrency_options.collision_strategy.value
        assert (one.concurrency_limit, strategy) == (limit.get("limit"), limit.get("collision_strategy"))


def test_services_listen_only_locally() -> None:
    assert all(port.startswith("127.0.0.1:") for one in SERVICES.values() for port in one.get("ports", []))


def test_every_server_and_client_of_prefect_has_the_login_of_its_api_and_servers_delete_history() -> None:
    """Otherwise every web page open in a browser that reaches the server could run programs through it."""
    containers = [one for name, pod in PODS.items() if name != "pool" for one in _containers(pod)]
    found = [(service.get("entrypoint"), service.get("environment", {})) for service in SERVICES.values()]
    for container in containers:
        variables = {one["name"]: one.get("value") or one.get("valueFrom") for one in container.get("env", [])}
        found.append((container.get("command"), variables))
    clients = servers = 0
    for command, variables in found:
        is_server, is_client = "PREFECT_SERVER_UI_API_URL" in variables, "PREFECT_API_URL" in variables
        assert bool(variables.get("PREFECT_SERVER_API_AUTH_STRING")) == is_server, command
        assert bool(variables.get("PREFECT_API_AUTH_STRING")) == is_client, command
        assert not is_server or variables.items() >= HISTORY.items(), command
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


def _one(name: str, kind: str = "") -> dict[str, Any]:
    """Return the only object with a name, of a kind if that is given."""
    [found] = [one for one in OBJECTS if kind in ("", one["kind"]) and name == one["metadata"]["name"]]
    return found


REFERENCES = {
    "claimName": "PersistentVolumeClaim",
    "secretName": "Secret",
    "secretKeyRef": "Secret",
    "configMapRef": "ConfigMap",
}


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
    have = {(document["kind"], document["metadata"]["name"]) for document in OBJECTS}
    volumes = {volume["name"] for volume in pod["volumes"]}
    for claim in _one(name, "StatefulSet")["spec"]["volumeClaimTemplates"] if ("StatefulSet", name) in have else ():
        volumes.add(claim["metadata"]["name"])
    for mapping in _mappings(pod):
        for field, kind in REFERENCES.items():
            wanted = mapping.get(field)
            assert wanted is None or (kind, wanted["name"] if isinstance(wanted, dict) else wanted) in have
        if isinstance(wanted := mapping.get("secretKeyRef"), dict):
            assert wanted["key"] in _one(wanted["name"], "Secret")["stringData"]
        assert {mount["name"] for mount in mapping.get("volumeMounts", [])} <= volumes


def test_the_cron_jobs_of_kubernetes_are_the_schedules_of_up() -> None:
    """Stories exist for 24 hours: without a separate job, a failed nightly run would lose a day of them."""
    assert {one["name"]: one["schedules"][0]["cron"] for one in DEPLOYMENTS if one["schedules"]} == CRON_JOBS
    retries = ["--json", "--retries", str(len(DELAYS))]
    commands = {name: PODS[name]["containers"][0]["args"] for name in CRON_JOBS}
    assert commands == {"nightly": ["sync", *retries], "due": ["sync", "--due", *retries]}


def test_the_key_is_mounted_where_the_settings_expect_it() -> None:
    settings = _one("gramhouse-settings")["data"]
    Settings.model_validate({name.removeprefix(PREFIX).lower(): value for name, value in settings.items()})
    folder, _, key = settings["GRAMHOUSE_API_KEY_FILE"].rpartition("/")
    [secret] = [one for one in OBJECTS if one["kind"] == "Secret" and key in one["stringData"]]
    for name, pod in PODS.items():
        claims = [v["secret"]["secretName"] for v in pod["volumes"] if "secret" in v and v["name"] == "key"]
        mounts = [m["mountPath"] for c in pod["containers"] for m in c["volumeMounts"] if m["name"] == "key"]
        syncs = name in {"worker", "workers", "nightly", "due", "pool"}
        assert claims == [secret["metadata"]["name"]] * syncs
        assert mounts == [folder] * syncs
