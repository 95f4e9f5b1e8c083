"""Runs of graphs: an endless one can be ended, errors are sentences, and what does not fit is refused."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest

from omnidraft.errors import BundleError
from omnidraft.runtime.bundle.lora_sites import LoraSites, Site
from omnidraft.runtime.bundle.model_entry import KvShape
from omnidraft.runtime.decoding.model import Cancelled
from omnidraft.runtime.models.engine_run import EngineRun
from omnidraft.runtime.models.graph_contract import kv_buffers
from omnidraft.runtime.models.ort_model import Graph, OrtModel

onnx = pytest.importorskip("onnx", reason="graphs are made with onnx")
from support.table_graph import table_graph  # noqa: E402


def endless() -> bytes:
    """A graph that loops for 2^62 rounds; `checked_graph` refuses it in a bundle."""
    make, value, kinds = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto
    body = onnx.helper.make_graph(
        [make("Identity", ["go"], ["on"]), make("Neg", ["state"], ["next"])],
        "body",
        [value("i", kinds.INT64, []), value("go", kinds.BOOL, []), value("state", kinds.FLOAT, [1])],
        [value("on", kinds.BOOL, []), value("next", kinds.FLOAT, [1])],
    )
    start = [
        onnx.helper.make_tensor("n", kinds.INT64, [], [1 << 62]),
        onnx.helper.make_tensor("go", kinds.BOOL, [], [True]),
    ]
    graph = onnx.helper.make_graph(
        [make("Loop", ["n", "go", "x"], ["y"], body=body)], "endless",
        [value("x", kinds.FLOAT, [1])], [value("y", kinds.FLOAT, [1])], start,
    )  # fmt: skip
    opset = [onnx.helper.make_opsetid("", 18)]
    return bytes(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString())


class Endless:
    """A run that never ends by itself, ready to be called."""

    def __init__(self) -> None:
        session = ort.InferenceSession(endless(), providers=["CPUExecutionProvider"])
        self.run, self.binding = EngineRun(session, "endless.onnx"), session.io_binding()
        self._x, self._y = np.ones(1, np.float32), np.ones(1, np.float32)
        self.binding.bind_input("x", "cpu", 0, np.float32, [1], self._x.ctypes.data)
        self.binding.bind_output("y", "cpu", 0, np.float32, [1], self._y.ctypes.data)

    def after(self, seconds: float, action: Callable[[], object]) -> threading.Timer:
        timer = threading.Timer(seconds, action)
        timer.start()
        return timer


def test_a_run_is_cancelled_while_it_is_going_on() -> None:
    each, cancelled = Endless(), threading.Event()

    def cancel() -> None:
        cancelled.set()
        each.run.interrupt()

    each.after(0.2, cancel)
    with pytest.raises(Cancelled):
        each.run(each.binding, cancelled.is_set)
    with pytest.raises(Cancelled):  # asked before the run, too
        each.run(each.binding, cancelled.is_set)


def test_an_interrupt_that_nobody_meant_repeats_the_run() -> None:
    """The flag may have been set too late for the run before."""
    each, asked = Endless(), list[int]()
    each.run.interrupt()

    def cancelled() -> bool:
        asked.append(1)
        each.after(0.1, each.run.interrupt)
        return len(asked) > 3

    with pytest.raises(Cancelled):
        each.run(each.binding, cancelled)
    assert len(asked) == 4


def test_the_end_of_all_runs_needs_nobody_who_cancels() -> None:
    each = Endless()

    def begun() -> bool:
        each.after(0.2, each.run.end)
        return False

    with pytest.raises(Cancelled):
        each.run(each.binding, begun)


ENDED = """
import os, signal, sys, threading
from omnidraft.cli import _run
from omnidraft.commands.terminal.stop_signals import stop_signals
from runtime.models.test_engine_run import Endless
each = Endless()
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
with stop_signals():
    try:
        each.after(0.3, lambda: os.kill(os.getpid(), signal.{name}))
        each.run(each.binding, lambda: False)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no kill with these signals")
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_ends_a_program_inside_a_run(name: str, status: int) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", ENDED.format(name=name)],
        cwd=root, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (status, b"")


KV = KvShape(1, 1, 1, 16)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("graph") / "model.onnx"
    rng = np.random.default_rng(1)
    table_graph(path, rng.normal(size=(8, 8)).astype(np.float32), np.zeros((3, 8), np.float32), 16)
    return path


def test_an_error_of_the_engine_is_a_sentence_with_the_name_of_the_graph(file: Path) -> None:
    model = OrtModel(Graph(file, KV, 8))
    with pytest.raises(BundleError, match=r"onnxruntime cannot run .*model\.onnx") as caught:
        model.score([8])  # outside of the table
    assert caught.value.fault == "run"
    assert model.length == 0
    assert model.score([3, 4]).shape == (2, 8)


@pytest.mark.parametrize(
    ("kv", "vocab_size", "why"),
    [
        (KvShape(2, 1, 1, 16), 8, "has no input 'past_key_values.1.key'"),
        (KvShape(1, 2, 1, 16), 8, r"past_key_values.0.key' is tensor\(float\) \[1, 1, 16, 1\] where"),
        (KvShape(1, 1, 4, 16), 8, "past_key_values.0.key'"),
        (KvShape(1, 1, 1, 1 << 24), 8, "past_key_values.0.key'"),
        (KvShape(1, 1, 1, 16, "float16"), 8, r"where the manifest gives tensor\(float16\) \[1, 1, 16, 1\]"),
        (KvShape(1024, 1, 1, 16), 8, "has no input 'past_key_values.1.key'"),
        (KV, 9, r"output 'logits' is .*8\] where the manifest gives .* \[1, 'any', 9\]"),
    ],
)
def test_a_graph_that_does_not_fit_the_manifest_is_refused(
    file: Path, kv: KvShape, vocab_size: int, why: str
) -> None:
    with pytest.raises(BundleError, match=why) as caught:
        Graph(file, kv, vocab_size)
    assert caught.value.fault == "graph"


def changed(file: Path, tmp_path: Path, change: Callable[[object], object]) -> Path:
    proto = onnx.load(str(file))
    change(proto.graph)
    onnx.save(proto, str(tmp_path / "changed.onnx"))
    return tmp_path / "changed.onnx"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda g: g.output.remove(g.output[1]), "has no output 'present.0.key'"),
        (lambda g: g.input.remove(g.input[1]), "has no input 'seqlens_k'"),
        (lambda g: setattr(g.input[1].type.tensor_type, "elem_type", 7), "'seqlens_k' is tensor"),
        (lambda g: setattr(g.input[0].type.tensor_type.shape.dim[1], "dim_value", 1), "'input_ids' is"),
        (lambda g: g.input[1].type.tensor_type.shape.dim.add(dim_value=1), "'seqlens_k' is"),
    ],
)  # fmt: skip
def test_a_changed_input_or_output_is_refused(
    file: Path, tmp_path: Path, change: Callable[[object], object], why: str
) -> None:
    with pytest.raises(BundleError, match=why):
        Graph(changed(file, tmp_path, change), KV, 8)


def test_an_input_that_nothing_feeds_is_refused(file: Path, tmp_path: Path) -> None:
    more = onnx.helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, [1])
    graph = Graph(changed(file, tmp_path, lambda g: g.input.append(more)), KV, 8)  # type: ignore[attr-defined]
    with pytest.raises(BundleError, match="has an input 'more', which the manifest does not name"):
        graph.check_adapters(None)
    Graph(file, KV, 8).check_adapters(None)
    with pytest.raises(BundleError, match=r"has no input 'layers.0.o.lora_a', which the manifest names"):
        Graph(file, KV, 8).check_adapters(LoraSites(None, {"layers.0.o": Site(4, (("o", 4),))}))


def test_buffers_that_no_machine_has_are_refused_in_a_sentence() -> None:
    """A graph that leaves the sizes open: what the manifest says decides."""
    with pytest.raises(BundleError, match=r"take .* MB, which this machine does not give") as caught:
        kv_buffers(KvShape(1024, 1 << 10, 1 << 12, 1 << 24))
    assert caught.value.fault == "memory"
