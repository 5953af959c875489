"""The pass that finds inter-cluster relations: CPU seconds by part, on a synthetic graph. Prints one JSON line.

Run it as ``python tests/programs/benchmarks/relations.py [--entities 100000 --relations 300000]``. ``count_pairs`` is the bare pass:
which clusters are joined, strength, support, weight, direction. ``texts`` is what describing them takes beyond that.
Entities stand in the order of their groups, so that every 20 in a row are a cluster as good ones are.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
from synthetic import GROUP, corpus

from leanrag_engine.core.graphs.graph import Graph
from leanrag_engine.core.model import Entity
from leanrag_engine.extraction.merging import ExtractSource, merge_source
from leanrag_engine.hierarchy.relations import LayerStep, count_pairs, inter_cluster_relations

TAU = 3


def measured(graph: Graph) -> dict[str, float | int]:
    labels = np.arange(len(graph.entities)) // GROUP
    upper = [Entity(f"c{number}", f"Cluster {number}", layer=1) for number in range(int(labels[-1]) + 1)]
    step = LayerStep(graph, labels, graph, labels)
    counted = count_pairs(step)  # the first run pays for memory that the others find at hand
    started = time.process_time()
    count_pairs(step)
    passed = time.process_time()
    found = inter_cluster_relations(step, upper, tau=TAU)
    whole = time.process_time() - passed
    return {
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "pairs": len(found),
        "above_tau": int((counted.strengths > TAU).sum()),
        "tally": round(passed - started, 2),
        "texts": round(whole - (passed - started), 2),
        "whole": round(whole, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--relations", type=int, default=300_000)
    asked = parser.parse_args()
    print(
        json.dumps(
            measured(
                merge_source(ExtractSource.of(corpus(asked.entities, asked.relations).all_extracts)).graph
            )
        )
    )


if __name__ == "__main__":
    main()
