"""All checks of the doctor in order: the machine, then the bundle."""

from collections.abc import Callable, Iterator
from pathlib import Path

import onnxruntime

from omnidraft.doctor.check import Check
from omnidraft.doctor.environment import environment_checks
from omnidraft.doctor.pair import health_checks, memory_check, quality_check
from omnidraft.doctor.placement import ESTIMATED, Placement, can_ask, can_estimate, estimate, placement
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
    """A graph is what a load takes; a static one is tried on its accelerators, or estimated for phones."""
    step = bundle.drafter.train
    try:
        if step is not None and name == step.graph:
            checked_step(bundle, name, step.folder)
            return
        graph = checked_graph(bundle, name)
    except BundleError as error:
        yield _refused(name, error)
        return
    here, made_for = onnxruntime.get_available_providers(), accelerators_of(bundle, name)
    for provider in sorted(made_for):
        title = f"{name} on {provider}"
        try:
            if provider in here and can_ask():
                yield _placed(title, placement(graph, provider))
            elif provider in ESTIMATED and provider not in here and can_estimate():
                yield _placed(title, estimate(graph, provider))
        except Exception as error:  # onnxruntime's and onnx's own exceptions share no narrower base
            remedy = "try it on the device itself, or install the onnxruntime that is made for it"
            yield Check(title, "warn", f"cannot be tried here ({reason(error)})", remedy)


def accelerators_of(bundle: Bundle, name: str) -> set[str]:
    """The accelerators that a graph was made for; none for a training step and for a graph of the CPU.

    A form that was quantised for one accelerator says nothing of another.
    """
    places = [place for entry in bundle.models for place in entry.places.values() if name in place.files]
    return {place.provider.name for place in places} - {CPU}


def _placed(title: str, placed: Placement) -> Check:
    details = {
        "provider": placed.provider, "nodes": placed.nodes, "taken": placed.taken,
        "partitions": placed.partitions, "on_cpu": placed.left, "estimated": placed.estimated,
    }  # fmt: skip
    if placed.left or placed.partitions not in (None, 1):
        remedy = "every change of processor copies tensors: measure it on the device, or use the cpu graph"
        return Check(title, "warn", placed.sentence(), remedy, details)
    return Check(title, "ok", placed.sentence(), details=details)
