"""The views of schema `main`: those of models/views, with the columns that this warehouse's fields have. No IO."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from connectors.warehouse.merge.columns import count_of, item_columns
from connectors.warehouse.publish.hide import OF_ACCOUNTS
from connectors.warehouse.storage.sql import literal, quoted, statements
from models.mapping import READING_TYPES, ColumnMapping, Field, FieldType, MediaMapping, Registry, to_pointer
from models.views import CHILDREN, KIND_PATHS, MEDIA, View, kind_of, macros, views

_SQL = statements(__name__)

_PART = re.compile(r"\{(\w+)\}")
_CONTENT = ("media_type", "caption", "permalink", "published_at")


def fill_views(mapping: MediaMapping, registry: Registry, hidden: Mapping[str, bool]) -> Sequence[View]:
    """Return the views of a warehouse in the order in which they can be created, with the parts in braces filled.

    Of columns that are `hidden`, by their names, the comments say so, and whether a hash replaces their values.
    """
    declared = {**views(), **macros()}
    fields = [field for field in registry.values() if field.resource == MEDIA and field.column_name is not None]
    comments = _explain_mapped(mapping.columns) | {str(field.column_name): _origin(field) for field in fields}
    columns = item_columns(mapping, registry)
    # A column that also has other values than counts is content, too: those values.
    content = [one for one in columns if not (one.is_count and one.type == "BIGINT")]
    mixed = {one.name: one for one in content if one.is_count}
    # Versions have paths in the composed form.
    paths = ", ".join(literal(to_pointer((unicodedata.normalize("NFC", one.key),))) for one in content)
    # By place: the names of a structure, which DuckDB would read in one go too, have no case.
    values = {one.name: _cast(f"gh_row.content[{n}]", one.type) for n, one in enumerate(content, 1)}
    more = {one.name: f"gh_row.{quoted(one.name)}" for one in columns if one.name not in declared[MEDIA].columns}
    of_content = {name: value for name, value in more.items() if name in values}
    of_versions = {name: values[name] for name in of_content}
    counts = {name: f"gh_count.counts[{literal(name)}]" for name in more if name not in values or name in mixed}
    counts |= {name: f"coalesce({counts[name]}::{one.type}, {more[name]})" for name, one in mixed.items()}
    replaced = ", ".join(
        f"if({count_of('m', one)} IS NULL, m.{quoted(name)}, NULL) AS {quoted(name)}" for name, one in mixed.items()
    )
    current = f"(SELECT * REPLACE ({replaced}) FROM core.media AS m)" if mixed else "core.media"  # noqa: S608 - quoted
    of_kind = *KIND_PATHS, *next(column.paths for column in mapping.columns if column.column == "media_type")
    naming = [one.name for one in columns if one.name == "media_type" or one.key in of_kind]
    # No table has it, so it is hidden here.
    kind = "NULL::VARCHAR" if "kind" in hidden else kind_of([f"gh_row.{quoted(name)}" for name in naming])
    superseded = {name: values[name] for name in _CONTENT}
    filled = [
        _fill(declared[MEDIA], more, comments, kind=kind),
        _fill(declared["media_superseded"], of_versions, comments, paths=f"[{paths}]", **superseded),
        _fill(declared["media_history"], of_content, comments, current=current),
        _fill(declared["fields"], {}, {}, counts=_counts(mapping, fields)),
        _fill(declared["media_at"], {**of_content, **counts}, comments, kind=kind),
    ]
    lists: dict[str, list[Field]] = {CHILDREN: []}
    for field in fields:
        if FieldType.LIST in field.kinds:
            lists.setdefault(mapping.child_table(field.path), []).append(field)
    filled += [_of_list(name, found, mapping, registry) for name, found in lists.items()]
    return [_tell_hidden(view, hidden) for view in {**declared, **{view.name: view for view in filled}}.values()]


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


def _fill(view: View, more: Mapping[str, str], comments: Mapping[str, str], **parts: str) -> View:
    """Return a view with its parts in braces, and with `more` columns, by name, in the place of {inferred}."""
    parts["inferred"] = "".join(f", {value} AS {quoted(name)}" for name, value in more.items())
    columns = {**view.columns, **{name: comments[name] for name in more}}
    # All at once: names and paths may have braces too.
    return replace(view, select=_PART.sub(lambda part: parts[part[1]], view.select), columns=columns)


def _explain_mapped(columns: Iterable[ColumnMapping]) -> dict[str, str]:
    return {one.column: f"Mapped from {', '.join(one.paths)}." for one in columns}


def _origin(field: Field) -> str:
    return f"Inferred from {field.path} ({', '.join(sorted(field.kinds))})."


def _tell_hidden(view: View, hidden: Mapping[str, bool]) -> View:
    """Return a view whose comments say what is hidden."""
    # Other views have columns with the names of items' columns, such as the kind of a run.
    names = hidden.keys() if "media_id" in view.columns else hidden.keys() & OF_ACCOUNTS
    notes = {name: " Hidden: a salted hash." if hidden[name] else " Hidden." for name in names}
    return replace(view, columns={name: about + notes.get(name, "") for name, about in view.columns.items()})


def _of_list(name: str, lists: Sequence[Field], mapping: MediaMapping, registry: Registry) -> View:
    """Return the view of the elements of a list; of the first of several that an item has."""
    view, is_children = views()[CHILDREN], name == CHILDREN
    columns = ", ".join(quoted(str(field.column_name)) for field in lists)
    elements = _SQL["elements"].replace("{list}", f"coalesce({columns})" if columns else "NULL::VARCHAR")
    mapped = mapping.child_columns if is_children else ()
    values = {one.column: _member(one.paths, READING_TYPES[one.reading]) for one in mapped}
    read = {path for one in mapped for path in one.paths}
    fields = {
        str(field.column_name): field
        for field in registry.values()
        if field.resource == name and field.column_name is not None and field.path not in read
    }
    more = {column: value for column, value in values.items() if column not in view.columns}
    more |= {column: _member([field.path], field.type) for column, field in fields.items()}
    if not is_children:
        comment = f"Inferred from the list at {lists[0].path}, one row each."
        kept = {column: view.columns[column] for column in (*view.relation.key, "run_seq")}
        view = View(name, view.relation, comment, kept, _SQL["list"])
    comments = _explain_mapped(mapped) | {column: _origin(field) for column, field in fields.items()}
    if not (is_children or more):
        more, comments = {"value": "gh_row.element ->> '$'"}, {"value": "The element, as text."}
    return _fill(view, more, comments, elements=elements, **values)


def _member(paths: Iterable[str], kind: str) -> str:
    """Return the expression for the first of some members that an element of a list has."""
    values = ", ".join(f"gh_row.element ->> {literal(path)}" for path in paths)
    return _cast(f"coalesce({values})", kind)


def _cast(text: str, kind: str) -> str:
    """Return the expression for a value that an expression has as text."""
    # DuckDB reads no time without seconds.
    whole = rf"regexp_replace({text}, '^(.{{16}})([Z+-])', '\1:00\2')" if kind == "TIMESTAMP WITH TIME ZONE" else text
    return f"TRY_CAST({whole} AS {kind})"


def _counts(mapping: MediaMapping, fields: Iterable[Field]) -> str:
    """Return the query for the number of items of each field; of several paths of a mapped column it is not known."""
    mapped = [("media_id", mapping.media_id), *((one.column, one.paths) for one in mapping.columns)]
    columns = {paths[0]: column for column, paths in mapped if len(paths) == 1}
    columns |= {one.path: str(one.column_name) for one in fields}
    entries = ", ".join(
        f"struct_pack(k := [{literal(MEDIA)}, {literal(path)}], v := count({quoted(column)}))"
        for path, column in columns.items()
    )
    return _SQL["counts"].replace("{entries}", entries)
