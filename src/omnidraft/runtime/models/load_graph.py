"""Load the graph of a model of a bundle, where it was placed."""

from omnidraft.runtime.bundle.bundle import Bundle
from omnidraft.runtime.bundle.checked_files import checked_graph
from omnidraft.runtime.bundle.hashes import check_unchanged
from omnidraft.runtime.bundle.model_entry import ModelEntry
from omnidraft.runtime.models.concat_model import ConcatGraph
from omnidraft.runtime.models.engine_memory import bounded_by
from omnidraft.runtime.models.ort_model import Graph
from omnidraft.runtime.models.static_model import StaticForm, StaticGraphs


def load_drafter(bundle: Bundle) -> Graph | StaticGraphs:
    """The drafter's graph alone, for work that needs no target.

    Raises:
        BundleError: it cannot be loaded, or a file of the bundle was changed meanwhile.
    """
    drafter = load_graph(bundle, bundle.drafter, 1)
    check_unchanged(bundle.places, bundle.stamps)
    return drafter


def load_graph(bundle: Bundle, entry: ModelEntry, threads: int) -> Graph | StaticGraphs:
    """The graph of a model of a bundle, or its static graphs where it was placed on them."""
    with bounded_by(bundle):
        if entry.place is not None:
            graphs = StaticGraphs(static_form(bundle, entry), entry.place.provider, threads=threads)
            graphs.check_adapters(entry.lora)
            return graphs
        kind = ConcatGraph if entry.layout == "concat" else Graph
        graph = kind(checked_graph(bundle, entry.graph), entry.kv, entry.vocab_size, threads=threads)
        if entry.layout == "shared":
            graph.check_adapters(entry.lora)
        return graph


def static_form(bundle: Bundle, entry: ModelEntry) -> StaticForm:
    """The static graphs of a model that was placed on them."""
    place = entry.place
    assert place is not None
    graphs = {block: checked_graph(bundle, name) for block, name in place.form.graphs.items()}
    host = bundle.file(place.host)
    return StaticForm(graphs, host, entry.kv, entry.vocab_size, place.form.mask)
