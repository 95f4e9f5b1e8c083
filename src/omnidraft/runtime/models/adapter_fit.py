"""Which model of a bundle an adapter is of, and what to feed that model's graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.models.adapter import Adapter, Floats, no_adapter
from omnidraft.runtime.vocab.vocab_map import VocabMap

Role = Literal["drafter", "target"]
ROLES: tuple[Role, ...] = ("target", "drafter")


@dataclass(frozen=True)
class Fitted:
    """An adapter, or none, and the tensors that a model's graph is to be fed for it."""

    adapter: Adapter | None = None
    tensors: Mapping[str, Floats] | None = None

    @property
    def digest(self) -> str | None:
        """Of the adapter."""
        return None if self.adapter is None else self.adapter.digest


def fit(
    adapter: Adapter, bundle: Bundle, vocab_map: VocabMap, role: Role | None = None
) -> tuple[Role, Fitted]:
    """The model that an adapter is of, the drafter where both are, and what to feed it.

    Raises:
        AdapterError: `foreign_vocabulary`, `wrong_base`, `no_sites`, or as of `Adapter.check_fits`.
    """
    name = bundle.path.name
    for who, ours, theirs in (
        ("drafter", adapter.draft_tokenizer, vocab_map.draft_fingerprint),
        ("target", adapter.target_tokenizer, vocab_map.target_fingerprint),
    ):
        if ours != theirs:
            raise AdapterError(
                f"the adapter was made for the {who} tokenizer {ours[:12]} and {name} has {theirs[:12]}",
                "use it with the pair of models that it was made for",
                fault="foreign_vocabulary",
            )
    models = {each: getattr(bundle, each) for each in (ROLES[::-1] if role is None else (role,))}
    found = [each for each, entry in models.items() if entry.fingerprint == adapter.base]
    if not found:
        has = ", ".join(f"{each} {str(e.fingerprint or 'unknown')[:12]}" for each, e in models.items())
        raise AdapterError(
            f"the adapter was made on the weights {adapter.base[:12]} and {name} has {has}",
            "use the bundle that it was made for, or convert or train it again",
            fault="wrong_base",
        )
    entry = models[found[0]]
    if adapter.tensors and entry.lora is None:
        raise AdapterError(_no_sites(bundle, found[0]), fault="no_sites")
    if not adapter.tensors and entry.head is None:
        raise AdapterError(_no_head(bundle, found[0]), fault="no_sites")
    try:
        return found[0], Fitted(adapter, _inputs(adapter, entry))
    except AdapterError as error:
        raise AdapterError(
            f"the adapter does not fit the {found[0]} of {name}: {error}; "
            + (
                "run that model on the cpu, or export with a higher --npu-lora-rank"
                if error.fault == "rank" and entry.place is not None
                else "use the bundle that it was made for, or convert or train it again"
            ),
            fault=error.fault,
        ) from None


def _inputs(adapter: Adapter, entry: ModelEntry) -> dict[str, Floats]:
    """What to feed a model's graph; one without a head leaves the adapter's out, which only costs speed."""
    found = {} if entry.lora is None else adapter.inputs(entry.lora)
    if adapter.head is None or entry.head is None:
        return found
    adapter.head.check_fits(entry.head)
    return {**found, **adapter.head.tensors}


def _no_sites(bundle: Bundle, role: Role) -> str:
    """That a model takes no adapters, and what to do."""
    name, entry = bundle.path.name, getattr(bundle, role)
    if entry.place is None or bundle.manifest[role].get("lora") is None:
        remedy = "without --no-lora" if role == "drafter" else "with --lora-target"
        return f"the {role} of {name} takes no adapters; export it again {remedy}"
    others = ["cpu", *(each for each, place in entry.places.items() if place.form.lora_rank is not None)]
    return (
        f"the {role} of {name} takes no adapters in the static graphs where it runs; run it on "
        f"{' or '.join(others)}"
        + ("" if others[1:] else ", or export it again with --npu-lora-rank, for float graphs")
    )


def _no_head(bundle: Bundle, role: Role) -> str:
    """That a model takes no head, and what to do."""
    name, entry = bundle.path.name, getattr(bundle, role)
    if entry.place is not None and bundle.manifest[role].get("head") is not None:
        return f"the {role} of {name} takes no head in the static graphs where it runs; run it on the cpu"
    remedy = "export it again without --no-head" if role == "drafter" else "use the head of a drafter"
    return f"the {role} of {name} takes no head, and the adapter is nothing else; {remedy}"


def unfitted(bundle: Bundle, role: Role) -> Fitted:
    """What to feed a model that is to run without an adapter."""
    lora = getattr(bundle, role).lora
    return Fitted(None, None if lora is None else no_adapter(lora))
