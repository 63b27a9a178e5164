"""The views of schema `main`: those of models/views, with the columns that this warehouse's fields have. No IO."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from connectors.warehouse.merge.columns import item_columns
from connectors.warehouse.storage.sql import literal, quoted, statements
from models.mapping import READING_TYPES, Field, FieldType, Registry, to_pointer
from models.mapping import Mapping as MediaMapping
from models.views import CHILDREN, KIND_PATHS, MEDIA, View, kind_of, macros, views

_SQL = statements(__name__)

_PART = re.compile(r"\{(\w+)\}")

_MAPPED = "Mapped in gramhouse.toml."
_CONTENT = ("media_type", "caption", "permalink", "published_at")


class Inferred(NamedTuple):
    """A column that a view has because a field has one: its name, the expression for its value, and a comment."""

    name: str
    value: str
    comment: str


def fill_views(mapping: MediaMapping, registry: Registry) -> Sequence[View]:
    """Return the views of a warehouse in the order in which they can be created, with the parts in braces filled."""
    declared = {**views(), **macros()}
    columns = item_columns(mapping, registry)
    fields = [field for field in registry.values() if field.resource == MEDIA and field.column_name is not None]
    comments = {str(field.column_name): _origin(field) for field in fields}
    new = [
        Inferred(one.name, f"gh_row.{quoted(one.name)}", comments.get(one.name, _MAPPED))
        for one in columns
        if one.name not in declared[MEDIA].columns
    ]
    # A column that also has other values than counts is content, too.
    content = [one for one in columns if not (one.is_count and one.type == "BIGINT")]
    # By place: the names of a structure, which DuckDB would read in one go too, have no case.
    values = {one.name: f"TRY_CAST(gh_row.content[{n}] AS {one.type})" for n, one in enumerate(content, 1)}
    paths = ", ".join(literal(to_pointer((one.key,))) for one in content)
    of_content = [one for one in new if one.name in values]
    of_versions = [one._replace(value=values[one.name]) for one in of_content]
    counts = [one._replace(value=f"gh_count.counts[{literal(one.name)}]") for one in new if one.name not in values]
    of_kind = *KIND_PATHS, *next(column.paths for column in mapping.columns if column.column == "media_type")
    naming = [one.name for one in columns if one.name == "media_type" or one.key in of_kind]
    kind = kind_of([f"gh_row.{quoted(name)}" for name in naming])
    superseded = {name: values[name] for name in _CONTENT}
    filled = [
        _fill(declared[MEDIA], new, kind=kind),
        _fill(declared["media_superseded"], of_versions, paths=f"[{paths}]", **superseded),
        _fill(declared["media_history"], of_content),
        _fill(declared["fields"], mapped=_mapped_paths(mapping), counts=_counts(mapping, fields)),
        _fill(declared["media_at"], [*of_content, *counts], kind=kind),
    ]
    lists: dict[str, list[Field]] = {CHILDREN: []}
    for field in fields:
        if FieldType.LIST in field.kinds:
            lists.setdefault(mapping.child_table(field.path), []).append(field)
    filled += [_of_list(name, found, mapping, registry) for name, found in lists.items()]
    return [*(declared | {view.name: view for view in filled}).values()]


def create_view(view: View) -> Iterator[str]:
    """Yield the statements that create a view, with its comments."""
    name = quoted("main", view.name)
    if view.is_macro:
        yield f"CREATE OR REPLACE MACRO {name}(t) AS TABLE {view.select}"
        yield f"COMMENT ON MACRO TABLE {name} IS {literal(view.comment)}"
        return
    yield f"CREATE OR REPLACE VIEW {name} AS {view.select}"
    yield f"COMMENT ON VIEW {name} IS {literal(view.comment)}"
    for column, comment in view.columns.items():
        yield f"COMMENT ON COLUMN {name}.{quoted(column)} IS {literal(comment)}"


def _fill(view: View, inferred: Sequence[Inferred] = (), **parts: str) -> View:
    """Return a view with its parts in braces, and with columns in the place of {inferred}."""
    parts["inferred"] = "".join(f", {one.value} AS {quoted(one.name)}" for one in inferred)
    columns = {**view.columns, **{one.name: one.comment for one in inferred}}
    return replace(view, select=_fill_parts(view.select, parts), columns=columns)


def _fill_parts(query: str, parts: Mapping[str, str]) -> str:
    # All at once: names and paths may have braces too.
    return _PART.sub(lambda part: parts[part[1]], query)


def _origin(field: Field) -> str:
    return f"Inferred from {field.path} ({', '.join(sorted(field.kinds))})."


def _of_list(name: str, lists: Sequence[Field], mapping: MediaMapping, registry: Registry) -> View:
    """Return the view of the elements of a list; of the first of several that an item has."""
    declared = views()[CHILDREN]
    columns = ", ".join(quoted(str(field.column_name)) for field in lists)
    elements = _fill_parts(_SQL["elements"], {"list": f"coalesce({columns})" if columns else "NULL::VARCHAR"})
    is_children = name == CHILDREN
    mapped = mapping.child_columns if is_children else ()
    values = {one.column: _member(one.paths, READING_TYPES[one.reading]) for one in mapped}
    read = {path for one in mapped for path in one.paths}
    members = [Inferred(one, value, _MAPPED) for one, value in values.items() if one not in declared.columns]
    members += [
        Inferred(str(field.column_name), _member([field.path], field.type), _origin(field))
        for field in registry.values()
        if field.resource == name and field.column_name is not None and field.path not in read
    ]
    if not is_children:
        comment = f"Inferred from the list at {lists[0].path}, one row each."
        kept = {column: declared.columns[column] for column in (*declared.relation.key, "run_seq")}
        declared = View(name, declared.relation, comment, kept, _SQL["list"])
    return _fill(declared, members, elements=elements, **values)


def _member(paths: Iterable[str], kind: str) -> str:
    """Return the expression for the first of some members that an element of a list has."""
    values = ", ".join(f"gh_row.element ->> {literal(path)}" for path in paths)
    return f"TRY_CAST(coalesce({values}) AS {kind})"


def _mapped_paths(mapping: MediaMapping) -> str:
    """Return the rows of the paths that are read for mapped columns: resource, path, column and type."""
    rows = [(MEDIA, path, "media_id", "VARCHAR") for path in mapping.media_id]
    for resource, columns in ((MEDIA, mapping.columns), (CHILDREN, mapping.child_columns)):
        rows += [(resource, path, one.column, READING_TYPES[one.reading]) for one in columns for path in one.paths]
    return "VALUES " + ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


def _counts(mapping: MediaMapping, fields: Iterable[Field]) -> str:
    """Return the query for the number of items of each field; of several paths of a mapped column it is not known."""
    mapped = [("media_id", mapping.media_id), *((one.column, one.paths) for one in mapping.columns)]
    columns = {paths[0]: column for column, paths in mapped if len(paths) == 1}
    columns |= {one.path: str(one.column_name) for one in fields}
    entries = ", ".join(
        f"struct_pack(k := [{literal(MEDIA)}, {literal(path)}], v := count({quoted(column)}))"
        for path, column in columns.items()
    )
    return _fill_parts(_SQL["counts"], {"entries": entries})
