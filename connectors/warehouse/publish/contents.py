"""The views of schema `main`: those of models/views, with the columns that this warehouse's fields have. No IO."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.warehouse.storage.quoting import literal, quoted
from connectors.warehouse.storage.statements import statements
from models.fields import Field, FieldType, Registry, child_table, kind_of, names_kind
from models.mapping import READING_TYPES, to_pointer
from models.mapping import Mapping as MediaMapping
from models.views import CHILDREN, MEDIA, View, macros, views

_SQL = statements(__name__)

_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Inferred:
    """A column that a view has because a field has one: its name, the expression for its value, and a comment."""

    name: str
    value: str
    comment: str


def fill_views(mapping: MediaMapping, registry: Registry) -> Sequence[View]:
    """Return the views of a warehouse in the order in which they can be created, with the parts in braces filled."""
    fields = [field for field in registry.values() if field.resource == MEDIA and field.column_name is not None]
    declared = views()
    items = _of_items(mapping, fields, declared[MEDIA])
    content = [one for one in items if one.name not in {field.column_name for field in fields if _is_only_count(field)}]
    types = _content_types(mapping, fields)
    # By place: the names of a structure, which DuckDB would read in one go too, have no case.
    values = {name: f"TRY_CAST(gh_row.content[{n}] AS {kind})" for n, (name, kind) in enumerate(types.items(), 1)}
    paths = {str(field.column_name): field.path for field in fields}
    of_versions = [replace(one, value=values[paths.get(one.name, one.name)]) for one in content]
    in_content = {name: values[name] for name in ("media_type", "caption", "permalink", "published_at")}
    in_content["paths"] = f"[{', '.join(literal(to_pointer((name,))) for name in types)}]"
    filled = {
        MEDIA: _fill(declared[MEDIA], items, kind=kind_of(_kind_columns(mapping, fields))),
        "media_superseded": _fill(declared["media_superseded"], of_versions, **in_content),
        "media_history": _fill(declared["media_history"], content),
        "fields": _fill(declared["fields"], (), mapped=_mapped_paths(mapping), counts=_counts(mapping, registry)),
    }
    lists: dict[str, list[Field]] = {CHILDREN: []}
    for field in fields:
        if FieldType.LIST in field.kinds:
            lists.setdefault(child_table(field.path, mapping), []).append(field)
    for name, found in lists.items():
        filled[name] = _of_list(name, found, mapping, registry)
    counts = [replace(one, value=f"gh_count.counts[{literal(one.name)}]") for one in items if one not in content]
    of_time = macros()["media_at"]
    filled["media_at"] = _fill(
        of_time, [*content, *counts], kind=kind_of(_kind_columns(mapping, fields)), schema="{schema}"
    )
    order = {**declared, **filled, **macros()}
    return [filled.get(name, view) for name, view in order.items()]


def create_view(view: View, schema: str = "main") -> Iterator[str]:
    """Yield the statements that create a view, with its comments."""
    name = quoted(schema, view.name)
    if view.parameter is not None:
        # Views read those of their own schema, macros those of the reader.
        select = view.select.replace("{schema}", schema)
        yield f"CREATE OR REPLACE MACRO {name}({view.parameter}) AS TABLE {select}"
        yield f"COMMENT ON MACRO TABLE {name} IS {literal(view.comment)}"
        return
    yield f"CREATE OR REPLACE VIEW {name} AS {view.select}"
    yield f"COMMENT ON VIEW {name} IS {literal(view.comment)}"
    for column, comment in view.columns.items():
        yield f"COMMENT ON COLUMN {name}.{quoted(column)} IS {literal(comment)}"


def _fill(view: View, inferred: Sequence[Inferred], **parts: str) -> View:
    """Return a view with its parts in braces, and with columns in the place of {inferred}."""
    parts["inferred"] = "".join(f", {one.value} AS {quoted(one.name)}" for one in inferred)
    columns = {**view.columns, **{one.name: one.comment for one in inferred}}
    return replace(view, select=_fill_parts(view.select, parts), columns=columns)


def _fill_parts(query: str, parts: Mapping[str, str]) -> str:
    # All at once: names and paths may have braces too.
    return _PART.sub(lambda part: parts[part[1]], query)


def _of_items(mapping: MediaMapping, fields: Iterable[Field], view: View) -> Sequence[Inferred]:
    """Return the columns of items that a view does not declare: mapped ones, then those of fields."""
    columns = {column.column: "Mapped in gramhouse.toml." for column in mapping.columns}
    columns |= {str(field.column_name): _origin(field) for field in fields}
    return [
        Inferred(name, f"gh_row.{quoted(name)}", comment)
        for name, comment in columns.items()
        if name not in view.columns
    ]


def _origin(field: Field) -> str:
    return f"Inferred from {field.path} ({', '.join(sorted(field.kinds))})."


def _is_only_count(field: Field) -> bool:
    return field.is_count and field.kinds <= {FieldType.INTEGER, FieldType.LONG}


def _content_types(mapping: MediaMapping, fields: Iterable[Field]) -> Mapping[str, str]:
    """Return the types of a version's content, which is keyed by mapped column or path."""
    types = {column.column: READING_TYPES[column.reading] for column in mapping.columns}
    types |= {field.path: field.type for field in fields if field.path not in types and not _is_only_count(field)}
    return types


def _kind_columns(mapping: MediaMapping, fields: Iterable[Field]) -> Sequence[str]:
    """Return the columns that may name an item's kind: `media_type`, and those of fields that do."""
    paths = next(column.paths for column in mapping.columns if column.column == "media_type")
    named = (str(field.column_name) for field in fields if field.path in paths or names_kind(field.path))
    return [f"gh_row.{quoted(name)}" for name in dict.fromkeys(["media_type", *named])]


def _of_list(name: str, lists: Sequence[Field], mapping: MediaMapping, registry: Registry) -> View:
    """Return the view of the elements of a list; of the first of several that an item has."""
    declared = views()[CHILDREN]
    columns = [quoted(str(field.column_name)) for field in lists]
    json_text = f"coalesce({', '.join(columns)})" if columns else "NULL::VARCHAR"
    elements = _fill_parts(_SQL["elements"], {"list": json_text})
    members = {
        field.path: Inferred(str(field.column_name), _member([field.path], field.type), _origin(field))
        for field in registry.values()
        if field.resource == name and field.column_name is not None
    }
    if name != CHILDREN:
        comment = f"Inferred from the list at {lists[0].path}, one row each."
        kept = {column: declared.columns[column] for column in (*declared.relation.key, "run_seq")}
        view = View(name, declared.relation, comment, kept, _SQL["list"])
        return _fill(view, [*members.values()], elements=elements)
    values = {one.column: _member(one.paths, READING_TYPES[one.reading]) for one in mapping.child_columns}
    mapped = [
        Inferred(column, value, "Mapped in gramhouse.toml.")
        for column, value in values.items()
        if column not in declared.columns
    ]
    read = {path for one in mapping.child_columns for path in one.paths}
    others = [member for path, member in members.items() if path not in read]
    return _fill(declared, [*mapped, *others], elements=elements, **values)


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


def _counts(mapping: MediaMapping, registry: Registry) -> str:
    """Return the query for the number of items of each field; of several paths of a mapped column it is not known."""
    columns = {path: one.column for one in mapping.columns for path in one.paths if len(one.paths) == 1}
    columns |= {path: "media_id" for path in mapping.media_id if len(mapping.media_id) == 1}
    columns |= {one.path: one.column_name for one in registry.values() if one.resource == MEDIA and one.column_name}
    entries = ", ".join(
        f"struct_pack(k := [{literal(MEDIA)}, {literal(path)}], v := count({quoted(column)}))"
        for path, column in columns.items()
    )
    return _fill_parts(_SQL["counts"], {"entries": entries})
