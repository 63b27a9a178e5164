"""The views of schema `main`: those of models/views, with the columns that this warehouse's fields have. No IO."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.warehouse.merge.registry import Field, Registry, child_table
from connectors.warehouse.storage.quoting import literal, quoted
from models.fields import FieldType, kind_of, names_kind
from models.mapping import READING_TYPES, to_pointer
from models.mapping import Mapping as MediaMapping
from models.views import CHILDREN, MEDIA, View, views

# Part of the query of every view of children: {items} is a query for the JSON text of each item's list.
_ELEMENTS = """
SELECT * EXCLUDE (elements), unnest(elements) AS element,
    (generate_subscripts(elements, 1) - 1)::INTEGER AS position
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
    declared = views()
    items = [*_mapped(mapping, declared[MEDIA]), *_fields(fields, declared[MEDIA])]
    content = [one for one in items if one.name not in {field.column_name for field in fields if _is_only_count(field)}]
    types = _content_types(mapping, fields)
    # By case: the names of a structure, which DuckDB would read in one go too, have none.
    values = {name: f"TRY_CAST(gh_row.content[{n}] AS {kind})" for n, (name, kind) in enumerate(types.items(), 1)}
    paths = {str(field.column_name): field.path for field in fields}
    of_versions = [replace(one, value=values[paths.get(one.name, one.name)]) for one in content]
    lists: dict[str, list[Field]] = {CHILDREN: []}
    for field in fields:
        if FieldType.LIST in field.kinds:
            lists.setdefault(child_table(field.path, mapping), []).append(field)
    filled = {
        MEDIA: _with(declared[MEDIA], items, kind=kind_of(_kind_columns(mapping, fields))),
        "media_superseded": _with(
            declared["media_superseded"],
            of_versions,
            **{name: values[name] for name in ("media_type", "caption", "permalink", "published_at")},
            # The last one, because paths may have any text.
            paths=f"[{', '.join(literal(to_pointer((name,))) for name in types)}]",
        ),
        "media_history": _with(declared["media_history"], content),
        "fields": _with(declared["fields"], (), mapped=_mapped_paths(mapping), counts=_counts(mapping, registry)),
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


def _of_children(name: str, lists: Sequence[Field], mapping: MediaMapping, registry: Registry) -> View:
    """Return the view of the elements of a list; of the first of several that an item has."""
    declared = views()[CHILDREN]
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
        Inferred(column, f"TRY_CAST({parts[column]} AS {READING_TYPES[one.reading]})", "Mapped in gramhouse.toml.")
        for column, one in mapped.items()
        if column not in declared.columns
    ] + [
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


def _mapped_paths(mapping: MediaMapping) -> str:
    """Return the rows of the paths that are read for mapped columns: resource, path, column and type."""
    rows = [(MEDIA, path, "media_id", "VARCHAR") for path in mapping.media_id]
    for resource, columns in ((MEDIA, mapping.columns), (CHILDREN, mapping.child_columns)):
        rows += [(resource, path, one.column, READING_TYPES[one.reading]) for one in columns for path in one.paths]
    return "VALUES " + ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


def _counts(mapping: MediaMapping, registry: Registry) -> str:
    """Return the query for the number of items of each field, as one map of resource and path.

    One value that is joined to every field: DuckDB does not compute it unless the column `items` is selected. What is
    one of several paths of a mapped column cannot be counted.
    """
    columns = {path: one.column for one in mapping.columns for path in one.paths if len(one.paths) == 1}
    columns |= {path: "media_id" for path in mapping.media_id if len(mapping.media_id) == 1}
    columns |= {one.path: one.column_name for one in registry.values() if one.resource == MEDIA and one.column_name}
    entries = ", ".join(
        f"struct_pack(k := [{literal(MEDIA)}, {literal(path)}], v := count({quoted(column)}))"
        for path, column in columns.items()
    )
    return f"SELECT map_from_entries([{entries}])::MAP(VARCHAR[], BIGINT) AS items FROM core.media"  # noqa: S608 - quoted
