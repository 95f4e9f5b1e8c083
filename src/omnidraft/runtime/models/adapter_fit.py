"""Find the model of a bundle that an adapter belongs to, and the tensors to feed its graph."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from omnidraft.errors import AdapterError
from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.models.adapter import Adapter, Floats, no_adapter
from omnidraft.runtime.vocab.vocab_map import VocabMap

Role = Literal["drafter", "target"]
ROLES: tuple[Role, ...] = ("target", "drafter")


@dataclass(frozen=True)
class Fitted:
    """An adapter, or None, and the tensors to feed the graph of the model."""

    adapter: Adapter | None = None
    tensors: Mapping[str, Floats] | None = None

    @property
    def digest(self) -> str | None:
        """The digest of the adapter; None without one."""
        return None if self.adapter is None else self.adapter.digest


def fit(
    adapter: Adapter, bundle: Bundle, vocab_map: VocabMap, role: Role | None = None
) -> tuple[Role, Fitted]:
    """The model that an adapter was made for, and the tensors to feed its graph.

    Args:
        role: the model; None tries both, and takes the drafter if both fit.

    Raises:
        AdapterError: `foreign_vocabulary`, `wrong_base`, `no_sites`, or a fault of `Adapter.check_fits`.
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
    fitting = [each for each, entry in models.items() if entry.fingerprint == adapter.base]
    if not fitting:
        has = ", ".join(f"{each} {str(e.fingerprint or 'unknown')[:12]}" for each, e in models.items())
        raise AdapterError(
            f"the adapter was made on the weights {adapter.base[:12]} and {name} has {has}",
            "use the bundle that it was made for, or convert or train it again",
            fault="wrong_base",
        )
    model = fitting[0]
    entry = models[model]
    if entry.lora is None:
        raise AdapterError(*_no_sites(bundle, model), fault="no_sites")
    try:
        return model, Fitted(adapter, adapter.inputs(entry.lora))
    except AdapterError as error:
        remedy = "use the bundle that it was made for, or convert or train it again"
        if error.fault == "rank" and entry.place is not None:
            remedy = "run that model on the cpu, or export with a higher npu_lora_rank"
        message = f"the adapter does not fit the {model} of {name}: {error}"
        raise AdapterError(message, remedy, fault=error.fault) from None


def _no_sites(bundle: Bundle, role: Role) -> tuple[str, str]:
    name, entry = bundle.path.name, getattr(bundle, role)
    if entry.place is None or bundle.manifest[role].get("lora") is None:
        remedy = "with lora_drafter = true" if role == "drafter" else "with lora_target = true"
        return f"the {role} of {name} takes no adapters", f"export it again {remedy}"
    places = ["cpu", *(each for each, place in entry.places.items() if place.form.lora_rank is not None)]
    export = "" if places[1:] else ", or export it again with npu_lora_rank, for float graphs"
    message = f"the {role} of {name} takes no adapters in the static graphs where it runs"
    return message, f"run it on {' or '.join(places)}{export}"


def unfitted(bundle: Bundle, role: Role) -> Fitted:
    """The tensors to feed a model without an adapter."""
    lora = getattr(bundle, role).lora
    return Fitted(None, None if lora is None else no_adapter(lora))
