"""The views of schema `main`: those of models/views, with the columns that this warehouse's fields have. No IO."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.store.merge.registry import CHILDREN, MEDIA, Field, Registry, child_table
from connectors.store.storage.quoting import literal, quoted
from models.fields import FieldType
from models.kinds import kind_of, names_kind
from models.mapping import READING_TYPES
from models.mapping import Mapping as MediaMapping
from models.views import View, views

# The views of the tables of this package, until they replace those of connectors/warehouse.
_FOLDER = "store"

# Part of the query of every view of children: {items} is a query for the JSON text of each item's list.
_ELEMENTS = """
SELECT * EXCLUDE (elements), unnest(elements) AS element, generate_subscripts(elements, 1) - 1 AS position
FROM (
    SELECT
        account_id, surface, media_id, run_seq,
        CASE
            WHEN json_valid({items}) AND json_type({items}) = 'ARRAY' THEN from_json({items}, '["JSON"]')
        END AS elements
    FROM core.media
)
"""


@dataclass(frozen=True, slots=True)
class Inferred:
    """A column that a view has because a field has one: its name, the expression for its value, and a comment."""

    name: str
    value: str
    comment: str


def fill_views(mapping: MediaMapping, registry: Registry) -> Sequence[View]:
    """Return the views of a warehouse in the order in which they can be created.

    `{inferred}` in their queries becomes the columns of fields; the other parts in braces are explained beside them.
    """
    fields = [field for field in registry.values() if field.resource == MEDIA and field.column_name is not None]
    declared = views(_FOLDER)
    items = [*_mapped(mapping, declared[MEDIA]), *_fields(fields, declared[MEDIA])]
    content = [one for one in items if one.name not in {field.column_name for field in fields if _is_only_count(field)}]
    of_versions = [replace(one, value=_in_content(one, fields)) for one in content]
    lists: dict[str, list[Field]] = {CHILDREN: []}
    for field in fields:
        if FieldType.LIST in field.kinds:
            lists.setdefault(child_table(field.path, mapping), []).append(field)
    filled = {
        MEDIA: _with(declared[MEDIA], items, kind=kind_of(_kind_columns(mapping, fields))),
        "media_superseded": _with(
            declared["media_superseded"], of_versions, content_types=literal(_content_types(mapping, fields))
        ),
        "media_history": _with(declared["media_history"], content),
        "fields": _with(declared["fields"], (), counts=_counts(mapping, registry)),
    }
    for name, found in lists.items():
        filled[name] = _of_children(name, found, mapping, registry)
    return [filled.get(name, view) for name, view in declared.items()] + [
        view for name, view in filled.items() if name not in declared
    ]


def create_view(view: View, schema: str = "main") -> Iterator[str]:
    """Yield the statements that create a view, with its comments."""
    name = quoted(schema, view.name)
    yield f"CREATE OR REPLACE VIEW {name} AS {view.select}"
    yield f"COMMENT ON VIEW {name} IS {literal(view.comment)}"
    for column, comment in view.columns.items():
        yield f"COMMENT ON COLUMN {name}.{quoted(column)} IS {literal(comment)}"


def _with(view: View, inferred: Iterable[Inferred], **parts: str) -> View:
    added = list(inferred)
    select = view.select.replace("{inferred}", "".join(f", {one.value} AS {quoted(one.name)}" for one in added))
    for name, text in parts.items():
        select = select.replace(f"{{{name}}}", text)
    return replace(view, select=select, columns={**view.columns, **{one.name: one.comment for one in added}})


def _mapped(mapping: MediaMapping, view: View) -> Iterator[Inferred]:
    for column in mapping.columns:
        if column.column not in view.columns:
            yield Inferred(column.column, f"gh_row.{quoted(column.column)}", "Mapped in gramhouse.toml.")


def _fields(fields: Iterable[Field], view: View) -> Iterator[Inferred]:
    for field in fields:
        name = str(field.column_name)
        if name not in view.columns:
            yield Inferred(name, f"gh_row.{quoted(name)}", _origin(field))


def _origin(field: Field) -> str:
    return f"Inferred from {field.path} ({', '.join(sorted(field.kinds))})."


def _is_only_count(field: Field) -> bool:
    return field.is_count and field.kinds <= {FieldType.INTEGER, FieldType.LONG}


def _in_content(column: Inferred, fields: Iterable[Field]) -> str:
    """Return the expression for a column's value in a version, whose content is keyed by mapped column or path."""
    path = next((field.path for field in fields if field.column_name == column.name), column.name)
    return f"gh_row.content.{quoted(path)}"


def _content_types(mapping: MediaMapping, fields: Iterable[Field]) -> str:
    """Return the structure of a version's content for DuckDB's from_json."""
    types = {column.column: READING_TYPES[column.reading] for column in mapping.columns}
    types |= {field.path: field.type for field in fields if field.path not in types and not _is_only_count(field)}
    return "{" + ", ".join(f"{_json(name)}: {_json(type_)}" for name, type_ in types.items()) + "}"


def _json(text: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", text) + '"'


def _kind_columns(mapping: MediaMapping, fields: Iterable[Field]) -> Sequence[str]:
    """Return the columns that may name an item's kind: `media_type`, and those of fields that do."""
    paths = next(column.paths for column in mapping.columns if column.column == "media_type")
    named = (str(field.column_name) for field in fields if field.path in paths or names_kind(field.path))
    return [f"gh_row.{quoted(name)}" for name in dict.fromkeys(["media_type", *named])]


def _of_children(name: str, lists: Sequence[Field], mapping: MediaMapping, registry: Registry) -> View:
    """Return the view of the elements of a list; of the first of several that an item has."""
    declared = views(_FOLDER)[CHILDREN]
    columns = [quoted(str(field.column_name)) for field in lists]
    items = f"coalesce({', '.join(columns)})" if columns else "NULL::VARCHAR"
    members = [field for field in registry.values() if field.resource == name and field.column_name is not None]
    value = "gh_row.element ->> {}"
    mapped = {column.column: column for column in mapping.child_columns} if name == CHILDREN else {}
    read = {path for column in mapped.values() for path in column.paths}
    parts = {
        column: "coalesce(" + ", ".join(value.format(literal(path)) for path in one.paths) + ")"
        for column, one in mapped.items()
    }
    inferred = [
        Inferred(
            str(member.column_name),
            f"TRY_CAST({value.format(literal(member.path))} AS {member.type})",
            _origin(member),
        )
        for member in members
        if member.path not in read
    ]
    elements = _ELEMENTS.format(items=items)
    if name == CHILDREN:
        return _with(declared, inferred, elements=elements, **parts)
    kept = {column: declared.columns[column] for column in (*declared.relation.key, "run_seq")}
    select = f"SELECT {', '.join(f'gh_row.{one}' for one in kept)}{{inferred}} FROM ({elements}) AS gh_row"  # noqa: S608
    comment = f"Inferred from the list at {lists[0].path}, one row each."
    return _with(View(name, declared.relation, comment, kept, select), inferred)


def _counts(mapping: MediaMapping, registry: Registry) -> str:
    """Return the query for the number of items of each field, as one map of resource and path.

    One value that is joined to every field: DuckDB does not compute it unless the column `items` is selected.
    """
    filling: Mapping[str, int] = {}
    filling = {column.column: sum((MEDIA, path) in registry for path in column.paths) for column in mapping.columns}
    entries = ", ".join(
        f"struct_pack(k := [{literal(MEDIA)}, {literal(field.path)}], v := count({quoted(field.column_name)}))"
        for field in registry.values()
        if field.resource == MEDIA and field.column_name is not None and filling.get(field.column_name, 1) == 1
    )
    if not entries:
        return "SELECT NULL::MAP(VARCHAR[], BIGINT) AS items"
    return f"SELECT map_from_entries([{entries}]) AS items FROM core.media"  # noqa: S608 - quoted
