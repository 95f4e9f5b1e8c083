"""All checks of the doctor in order: the machine, then the bundle."""

from collections.abc import Callable, Iterator
from pathlib import Path

import onnxruntime

from omnidraft.doctor.check import Check
from omnidraft.doctor.environment import CLOUD, environment_checks
from omnidraft.doctor.mobile import ESTIMATED, NEED_ONNX, can_estimate, estimate
from omnidraft.doctor.pair import health_checks, memory_check, quality_check
from omnidraft.doctor.placement import Placement, can_ask, placement
from omnidraft.errors import BundleError, OmnidraftError, SignatureError, counted, reason
from omnidraft.runtime.bundle.bundle import Bundle, open_bundle, unlisted_files
from omnidraft.runtime.bundle.checked_files import checked_graph, checked_step
from omnidraft.runtime.bundle.memory import available_bytes
from omnidraft.runtime.bundle.places import CPU
from omnidraft.runtime.bundle.signature import PublicKey, read_signature
from omnidraft.runtime.session.language_model import load_bundle
from omnidraft.runtime.session.measure import known_costs

ExamineProgress = Callable[[str, int, int], None]  # name of the step, its number, number of steps


def examine(
    path: Path | None = None, public_key: PublicKey | None = None, progress: ExamineProgress = lambda *_: None
) -> list[Check]:
    """Check this machine and, if there is one, a bundle on it.

    Args:
        path: of a bundle; None for the machine alone.
        public_key: of the bundle's signer; None leaves the signature unchecked.
    """
    progress("this machine", 0, 3)
    checks = environment_checks()
    if path is not None:
        progress("hashes", 1, 3)
        checks += list(_bundle_checks(path, public_key, progress))
    return checks


def _bundle_checks(path: Path, public_key: PublicKey | None, progress: ExamineProgress) -> Iterator[Check]:
    try:
        bundle = open_bundle(path, public_key)
    except SignatureError as error:
        yield _refused("signature", error)
        return
    except OmnidraftError as error:
        yield _refused("bundle", error)
        return
    yield Check("bundle", "ok", f"{counted(len(bundle.stamps), 'file')}, all hashes match")
    yield _signature_check(bundle)
    extra = unlisted_files(bundle)
    if extra:
        message = f"the manifest does not list {', '.join(extra[:4])}{', ...' if len(extra) > 4 else ''}"
        remedy = "nothing reads these files and no hash or signature covers them: delete what is not yours"
        yield Check("other files", "warn", message, remedy, {"files": extra})
    yield quality_check(bundle)
    memory = memory_check(bundle, available_bytes())
    yield memory
    if memory.verdict == "fail":
        yield from health_checks(bundle, known_costs(bundle))
        yield Check("graphs", "warn", "not loaded: the memory is too short", memory.remedy)
        return
    progress("graphs", 2, 3)
    yield from _loading_checks(bundle)
    present = bundle.places.present(bundle.manifest["files"])
    for name in sorted(name for name in present if name.endswith(".onnx")):
        yield from _graph_checks(bundle, name)


def _refused(name: str, error: OmnidraftError) -> Check:
    return Check(name, "fail", error.message, error.remedy or "run `omnidraft export` again")


def _signature_check(bundle: Bundle) -> Check:
    if bundle.signed_by:
        return Check("signature", "ok", f"by key {bundle.signed_by}", details={"key": bundle.signed_by})
    try:
        signature = read_signature(bundle.path)
    except SignatureError as error:
        return _refused("signature", error)
    if signature is None:
        return Check("signature", "ok", "none, and no public key was given", details={"key": None})
    message = f"says key {signature.key_id}, and was not checked: no public key was given"
    details = {"claims": signature.key_id}
    return Check("signature", "warn", message, "name its signer's key in OMNIDRAFT_PUBLIC_KEY", details)


def _loading_checks(bundle: Bundle) -> Iterator[Check]:
    """The pair is sound and fast here, and its parts load and fit each other."""
    try:
        weights = load_bundle(bundle)  # times this machine where the bundle does not name it
    except OmnidraftError as error:
        yield from health_checks(bundle, known_costs(bundle))
        yield _refused("loading", error)
        return
    yield from health_checks(bundle, weights.device or known_costs(bundle))
    yield Check("loading", "ok", "graphs, tokenizers and vocabulary map load and fit each other")


def _graph_checks(bundle: Bundle, name: str) -> Iterator[Check]:
    """The placement of a graph on each provider that may run it: measured, or estimated for phones."""
    try:
        graph = _checked(bundle, name)
    except BundleError as error:
        yield _refused(name, error)
        return
    available = [p for p in onnxruntime.get_available_providers() if p != CLOUD]
    may_run = _providers_of(bundle, name)
    if not can_ask():
        message = f"onnxruntime {onnxruntime.__version__} does not tell where nodes go; 1.24 and newer do"
        yield Check(name, "ok", message)
    else:
        for provider in available:
            if provider in may_run:
                yield _measured(bundle, name, graph, provider)
    missing = [p for p in ESTIMATED if p not in available and p in may_run]
    if missing and not can_estimate():
        yield Check(name, "ok", f"{NEED_ONNX}, which is not installed", "`pip install onnx` if you want it")
    elif missing:
        yield from _estimated(bundle, name, missing)


def _providers_of(bundle: Bundle, name: str) -> set[str]:
    """The providers that a graph was made for.

    A training step and a dynamic graph run on the CPU alone. A static graph is for the providers of its form:
    a form that was quantised for one accelerator says nothing of another.
    """
    places = [place for entry in bundle.models for place in entry.places.values() if name in place.files]
    return {CPU, *(place.provider.name for place in places)}


def _checked(bundle: Bundle, name: str) -> tuple[Path | bytes, Path | None]:
    """A graph that was looked at as before each load, and the folder of its weights where it is not its own.

    A training step shares the weights of the drafter's graph, by paths that begin in the drafter's folder.
    """
    step = bundle.drafter.train
    if step is not None and name == step.graph:
        return checked_step(bundle, name, step.folder), bundle.file(step.folder)
    return checked_graph(bundle, name), None


def _measured(bundle: Bundle, name: str, graph: tuple[Path | bytes, Path | None], provider: str) -> Check:
    title, is_static = f"{name} on {provider}", _providers_of(bundle, name) != {CPU}
    try:
        return _placed(title, placement(graph[0], provider, graph[1], folded=is_static), name)
    except Exception as error:  # onnxruntime's own exceptions share no narrower base
        needed = provider == CPU and name in (bundle.target.graph, bundle.drafter.graph)
        remedy = (
            "run `omnidraft export` again"
            if needed
            else "leave this provider out, or install the onnxruntime that is made for it"
        )
        return Check(title, "fail" if needed else "warn", f"cannot be loaded ({reason(error)})", remedy)


def _estimated(bundle: Bundle, name: str, missing: list[str]) -> Iterator[Check]:
    try:
        for each in estimate(bundle.file(name)):
            if each.provider in missing:
                yield _placed(f"{name} on {each.provider}", each, name)
    except Exception as error:  # onnxruntime's and onnx's own exceptions share no narrower base
        yield Check(
            f"{name} on phones",
            "warn",
            f"cannot be estimated ({reason(error)})",
            "try it on the phone itself",
        )


def _placed(title: str, placed: Placement, name: str) -> Check:
    details = {
        "graph": name, "provider": placed.provider, "nodes": placed.nodes, "taken": placed.taken,
        "partitions": placed.partitions, "on_cpu": placed.left, "estimated": placed.estimated,
    }  # fmt: skip
    # Only a graph that was exported for an accelerator is expected to run on it as a whole.
    if "/npu/" in name and placed.provider != CPU and (placed.left or placed.partitions not in (None, 1)):
        remedy = "every change of provider copies tensors: measure it on the device, or use the cpu graph"
        return Check(title, "warn", placed.sentence(), remedy, details)
    return Check(title, "ok", placed.sentence(), details=details)
