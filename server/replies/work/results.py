"""What a finished job has done, in sentences: builds, forecasts, rollbacks, deletions, a rewritten index."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from leanrag_engine.core.text.shortening import count_things

from ..state.status import LayerCard, layers_line

JobFigures: TypeAlias = Mapping[str, Any]
"""The figures of a finished job, by the names that clients read."""

KINDS = {
    "documents": ("document",),
    "passages": ("passage",),
    "entities": ("entity", "entities"),
    "relations": ("relation",),
}
"""One of each kind that an import counts, and several where that needs no s."""
KINDS_OF_VECTORS = {"windows": "of passages", "entities": "of entities", "aggregates": "of clusters"}


def build_lines(collection: str, result: JobFigures) -> list[str]:
    layers = layers_line([LayerCard(**each) for each in result["layers"]])
    how = "Everything was clustered anew" if result["mode"] == "rebuild" else "Existing clusters were kept"
    lines = [
        f"Generation {result['generation']} of collection {collection} is published: {layers}.",
        f"{how} (mode {result['mode']}): {result['reason']}.",
    ]
    if stale := result["stale"]:
        texts = count_things(stale, "written text is", "written texts are")
        lines.append(f"{texts} older than what lies beneath now (stale).")
    lines += [f"- {describe_spent(each)}" for each in result.get("spent", ())]
    if corrections := result.get("corrections"):
        applied, idle = (", ".join(corrections[key]) or "none" for key in ("applied", "without_effect"))
        lines.append(f"Corrections: {applied} applied, {idle} without effect.")
    if schema := result.get("schema"):
        lines += schema_lines(schema)
    return lines


def schema_lines(schema: JobFigures) -> list[str]:
    """Say what a schema did in a build."""
    lines = [f"Schema {schema['schema']}: {schema['apart']:,} mentions of types outside it are kept apart."]
    refs = {
        done: [
            f"{each['kind']}:{each['name']} ({each['chunks']})"
            for each in schema["proposals"]
            if each["adopted"] is done
        ]
        for done in (True, False)
    }
    if adopted := refs[True]:
        lines.append(f"Adopted into it: {', '.join(adopted)}. `leanrag schema refuse TYPE` takes one back.")
    if outside := refs[False]:
        more = f" and {schema['unlisted']} more" if schema["unlisted"] else ""
        lines.append(f"Outside it, with their passages: {', '.join(outside)}{more}.")
    if again := schema["read_again"]:
        lines.append(f"The model read {count_things(again, 'passage')} again, for this schema.")
    if untyped := schema["untyped"]:
        lines.append(
            f"{count_things(untyped, 'mention')} found by heuristics have a type that is not the schema's or cannot be told:"
            " they stay, as they are. Heuristics find no attributes and no types of relations."
        )
    return lines


def describe_spent(spent: JobFigures) -> str:
    """Say what the model calls of one step used."""
    unpriced = f", {spent['unpriced']} of the calls at an unknown price" if spent["unpriced"] else ""
    return (
        f"{spent['step']}: {count_things(spent['calls'], 'call')}, {spent['prompt_tokens']:,} tokens in and "
        f"{spent['completion_tokens']:,} out, {format_dollars(spent['cost'], spent['cost'])}{unpriced}"
    )


def ingest_lines(collection: str, result: JobFigures) -> list[str]:
    lines = [f"Documents: {result['documents'] or 'none'}."] if "documents" in result else []
    lines += [
        f"Left out: {each['count']} {each['reason']} ({', '.join(each['examples'])})."
        for each in result.get("skipped", ())
    ]
    if "generation" in result:
        return lines + build_lines(collection, result)
    if result.get("built") is False:
        lines.append("The published build does not cover the present documents.")
    elif result.get("built"):
        lines.append("The published build covers the present documents.")
    return [*lines, "Dry run: nothing was changed."] if result.get("dry_run") else lines


def describe_taken(result: JobFigures) -> str:
    """Say what an import found and took, and whether it was new."""
    found, taken = result["found"], result["taken"]
    of = {kind: f" (of {count:,})" if count else "" for kind, count in found.items()}
    counts = ", ".join(f"{count_things(taken[kind], *KINDS[kind])}{of[kind]}" for kind in taken)
    known = "" if result["changed"] else " All of it was there already: nothing was changed."
    return f"Taken from {result['format']}: {counts}.{known}"


def describe_remarks(result: JobFigures) -> list[str]:
    """Say what an import left out or changed, a phrase for each reason."""
    phrases = []
    for each in result["remarks"]:
        examples = f" ({', '.join(each['examples'])})" if each["examples"] else ""
        phrases.append(f"{each['count']:,} {each['reason']}{examples}")
    return phrases


def import_lines(collection: str, result: JobFigures) -> list[str]:
    lines = [describe_taken(result), *(f"- {each}" for each in describe_remarks(result))]
    if "generation" in result:
        return lines + build_lines(collection, result)
    return lines if result["built"] else [*lines, "The published build does not cover it yet."]


def rollback_lines(collection: str, result: JobFigures) -> list[str]:
    layers = layers_line([LayerCard(**each) for each in result["layers"]])
    restored = f"with the content of generation {result['restored']}"
    lines = [
        f"Generation {result['generation']} of collection {collection} is published, {restored}: {layers}."
    ]
    if pending := result["pending"]:
        documents = count_things(pending, "document is pending: it", "documents are pending: they")
        lines.append(f"{documents} came or changed since generation {result['restored']}.")
    return lines


def reindex_lines(collection: str, result: JobFigures) -> list[str]:
    counts = ", ".join(
        f"{count:,} {KINDS_OF_VECTORS.get(kind, f'of {kind}')}" for kind, count in result.items()
    )
    return [f"The vectors of collection {collection} were written again: {counts or 'none'}."]


def count_corpus(result: JobFigures) -> tuple[str, str]:
    """Return how many documents and passages a job was about, in words."""
    return count_things(result["documents"], "document"), count_things(result["chunks"], "passage")


def deletion_lines(_: str, result: JobFigures) -> list[str]:
    if not result["documents"]:
        return ["Nothing was left to delete."]
    documents, passages = count_corpus(result)
    return [f"Deleted {documents} with {passages} and everything that only they support."]


def copy_lines(collection: str, result: JobFigures) -> list[str]:
    documents, passages = count_corpus(result)
    built = "with its published build" if result["built"] else "which was never built"
    return [f"Copied collection {collection}, {built}, to {result['target']}: {documents}, {passages}."]


def collection_deletion_lines(collection: str, result: JobFigures) -> list[str]:
    documents, passages = count_corpus(result)
    return [f"Deleted collection {collection} with {documents}, {passages} and everything made from them."]


def forecast_lines(_: str, result: JobFigures) -> list[str]:
    """Say what a build would request of its models."""
    documents, passages = count_corpus(result)
    corpus = f"{documents} ({passages})"
    if not result["models"]:
        return [f"A build of {corpus} calls no model and costs nothing: none is configured."]
    names = " and ".join(dict.fromkeys(result["models"].values()))
    alone = "" if "reading" in result["models"] else ", which writes summaries alone,"
    lines = [f"A build of {corpus} with {names}{alone} would make {describe_requests(result)}."]
    lines += [f"- {each['step']}: {describe_requests(each)}" for each in result["steps"]]
    if not result["exact"]:
        lines.append("Ranges: how much there is to write depends on what the model reads.")
    if result["guessed"]:
        lines.append(f"The length of what it writes is estimated for: {', '.join(result['guessed'])}.")
    return lines


def describe_requests(each: JobFigures) -> str:
    """Say how many calls, tokens and dollars, as ranges where they are."""
    cost = "at an unknown price" if each["cost"] is None else f"for {format_dollars(*each['cost'])}"
    sent, got = format_range(each["input_tokens"]), format_range(each["output_tokens"])
    return f"{format_range(each['calls'])} calls, {sent} tokens in and {got} out, {cost}"


def format_dollars(least: float, most: float) -> str:
    return f"${most:.2f}" if f"{least:.2f}" == f"{most:.2f}" else f"${least:.2f} to ${most:.2f}"


def format_range(span: Sequence[int]) -> str:
    """Format the least and the most of something."""
    least, most = span
    return str(least) if least == most else f"{least} to {most}"


SENTENCES: Mapping[str, Callable[[str, JobFigures], list[str]]] = {
    "build": build_lines,
    "copy": copy_lines,
    "delete": deletion_lines,
    "delete_collection": collection_deletion_lines,
    "forecast": forecast_lines,
    "import": import_lines,
    "ingest": ingest_lines,
    "reindex": reindex_lines,
    "rollback": rollback_lines,
}
"""By the kind of a job, what says what it has done, of its collection and its result as clients see it."""
