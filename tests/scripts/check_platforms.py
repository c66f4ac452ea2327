"""Launch folders read back by a parser of YAML that is not ours: what a platform's files start is what the scripts start.

check_platforms.py FOLDER...: each an export with --as; prints a line for each and exits with 1 where one differs. Beside
PyYAML it takes what is installed: kubernetes-validate's schemas, Ray Serve's, and Compose's in the file of
$COMPOSE_SCHEMA.
"""

import json
import os
import pathlib
import re
import shlex
import sys

import yaml

try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None
try:
    from ray.serve.schema import ServeDeploySchema
except ImportError:
    ServeDeploySchema = None
try:
    import jsonschema
except ImportError:
    jsonschema = None

PRODUCT = re.compile(r"nvidia\.com/gpu\.product|amd\.com/gpu\.product-name")
RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/xe")


def words_of(script):
    """Words of the command that a script ends in, and what it exports."""
    text = script.read_text()
    exports = dict(re.findall(r"^export (\w+)=(\S+)", text, re.M))
    command = text[text.rindex("\nexec ") + 6:]
    return shlex.split(command.replace("\\\n", " ")), exports


def scripts_of(folder):
    """{(engine, node): (words, exports)}."""
    found = {}
    for script in folder.glob("engine-*-node-*.sh"):
        engine, node = map(int, re.match(r"engine-(\d+)-node-(\d+)", script.name).groups())
        found[engine, node] = words_of(script)
    return found


def plain(words):
    """Words without what a platform says in its own way: addresses and ranks."""
    result, skip = [], False
    for word in words:
        if skip:
            skip = False
            continue
        if word in ("--host", "--master-addr", "--node-rank"):
            skip = True
            continue
        result.append("--address" if word.startswith("--address=") else word)
    if result:
        result[0] = result[0].rsplit("/", 1)[-1]
    return result


def command_of(entrypoint, command):
    """The words of a container, out of bash -c where that is what runs."""
    if entrypoint[:2] == ["bash", "-c"]:
        text = command[0]
        return shlex.split(text[text.rindex("\nexec ") + 6:])
    return entrypoint + command


def gpus_of(exports):
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if name in exports:
            return [int(i) for i in exports[name].split(",") if i]
    return []


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(each) for each in what))


def check_compose(folder, scripts):
    seen = {}
    for file in sorted(folder.glob("compose*.yaml")):
        document = yaml.safe_load(file.read_text())
        if jsonschema and os.environ.get("COMPOSE_SCHEMA"):
            jsonschema.validate(document, json.loads(pathlib.Path(os.environ["COMPOSE_SCHEMA"]).read_text()))
        for name, service in document["services"].items():
            if name == "router":
                continue
            engine, node = re.match(r"engine-(\d+)(?:-node-(\d+))?$", name).groups()
            words = [word.replace("$$", "$") for word in command_of(service["entrypoint"], service["command"])]
            reserved = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
            ids = [int(i) for each in reserved for i in each["device_ids"]]
            seen[int(engine), int(node or 0)] = words
            exports = scripts[int(engine), int(node or 0)][1]
            visible = service["environment"].get("CUDA_VISIBLE_DEVICES")
            if visible and ids:
                ids = [sorted(ids)[int(i)] for i in visible.split(",")]
            if ids:
                check(ids == gpus_of(exports), name, "has GPUs", ids, "its script", gpus_of(exports))
            partition = exports.get("VLLM_PP_LAYER_PARTITION")
            check(service["environment"].get("VLLM_PP_LAYER_PARTITION") == partition, name, "partition")
    return seen


def pods_of(document):
    """Templates of pods with their number, and whether the leader counts the rank."""
    kind, spec = document["kind"], document["spec"]
    if kind == "Deployment":
        rank = int(document["metadata"]["labels"]["tessera/rank"])
        return [(spec["template"], [rank])]
    if kind == "LeaderWorkerSet":
        sets = spec["leaderWorkerTemplate"]
        return [(sets["leaderTemplate"], [0]), (sets["workerTemplate"], list(range(1, sets["size"])))]
    return []


def check_kubernetes(folder, scripts):
    seen = {}
    for document in yaml.safe_load_all((folder / "kubernetes.yaml").read_text()):
        if kubernetes_validate and document["kind"] != "LeaderWorkerSet":
            kubernetes_validate.validate(document, "1.28", strict=True)
        for template, ranks in pods_of(document):
            if kubernetes_validate:
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]}
                kubernetes_validate.validate(pod, "1.28", strict=True)
            engine = int(template["metadata"]["labels"]["tessera/engine"])
            container = template["spec"]["containers"][0]
            words = command_of(container["command"], container["args"])
            count = sum(int(container["resources"]["limits"].get(name, 0)) for name in RESOURCES)
            for rank in ranks:
                exports = scripts[engine, rank][1]
                check(count == len(gpus_of(exports)), document["metadata"]["name"], "has", count, "GPUs, its script",
                      gpus_of(exports))
                own = {each["name"]: each.get("value") for each in container["env"]}
                check(own.get("VLLM_PP_LAYER_PARTITION") == exports.get("VLLM_PP_LAYER_PARTITION"), "partition")
                seen[engine, rank] = words
            if count:
                terms = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                expression = terms["nodeSelectorTerms"][0]["matchExpressions"][0]
                check(PRODUCT.fullmatch(expression["key"]) and expression["values"], "no product of GPUs")
    return seen


def value_of(text):
    try:
        return float(text)
    except ValueError:
        return text


def check_ray(folder, scripts):
    document = yaml.safe_load((folder / "ray-serve.yaml").read_text())
    if ServeDeploySchema:
        ServeDeploySchema.model_validate(document)
    wanted = []
    for (engine, node), (words, exports) in scripts.items():
        if node == 0:
            options, gpus = {}, sum(len(gpus_of(scripts[key][1])) for key in scripts if key[0] == engine)
            for at, word in enumerate(words):
                if word.startswith("--"):
                    name = word[2:].replace("-", "_")
                    has_value = at + 1 < len(words) and not words[at + 1].startswith("--")
                    options[re.sub("^no_", "", name)] = value_of(words[at + 1]) if has_value else not name.startswith("no_")
            for name in ("host", "port", "served_model_name", "nnodes", "node_rank", "master_addr", "master_port",
                         "distributed_executor_backend"):
                options.pop(name, None)
            wanted.append((words[2], options, gpus, exports.get("VLLM_PP_LAYER_PARTITION")))
    got = []
    for application in document["applications"]:
        for config in application["args"]["llm_configs"]:
            options = {key: value_of(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else value
                       for key, value in config["engine_kwargs"].items()}
            check(options.pop("distributed_executor_backend") == "ray", "executor")
            variables = config.get("runtime_env", {}).get("env_vars", {})
            one = (config["model_loading_config"]["model_source"], options,
                   len(config["placement_group_config"]["bundles"]), variables.get("VLLM_PP_LAYER_PARTITION"))
            got += [one] * config["deployment_config"]["num_replicas"]
    prefixes = [application["route_prefix"] for application in document["applications"]]
    check(len(set(prefixes)) == len(prefixes), "two applications at one address")
    key = repr
    check(sorted(map(key, [(m, sorted(o.items()), g, p) for m, o, g, p in got]))
          == sorted(map(key, [(m, sorted(o.items()), g, p) for m, o, g, p in wanted])), "\n", got, "\n", wanted)
    return None


CHECKS = {"compose": check_compose, "kubernetes": check_kubernetes, "ray": check_ray}


def main(folders):
    failed = 0
    for name in folders:
        folder = pathlib.Path(name)
        manifest = json.loads((folder / "launch.json").read_text())
        scripts = scripts_of(folder)
        try:
            seen = CHECKS[manifest["as"]](folder, scripts)
            for key, (words, _) in scripts.items() if seen is not None else ():
                check(key in seen, "nothing starts engine", key)
                check(plain(seen[key]) == plain(words), key, "starts", plain(seen[key]), "its script", plain(words))
            check(seen is None or len(seen) == len(scripts), "it starts more than the scripts")
            print(f"ok {name}")
        except Exception as error:  # whatever a parser, a schema or a check finds
            failed += 1
            print(f"not ok {name}: {type(error).__name__}: {str(error)[:500]}")
    print(f"{len(folders) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
