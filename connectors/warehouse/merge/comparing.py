"""SQL that compares two rows of an item: their typed columns, their children and their overflow.

Media URLs are not compared, because they have a new signature in every response; other URLs are compared without
their query if it is signed. Nor are the fields compared that the mapping ignores. An empty text equals NULL, and texts
are equal if Unicode's composed forms of them are. Counts are compared separately.
"""

import re
from collections.abc import Sequence

from connectors.warehouse.ingest.columns import count_of, text_of
from connectors.warehouse.storage.quoting import literal, quoted
from models.mapping import Mapping
from models.schema.json_types import JsonType
from models.schema.table_schemas import ColumnSchema, Part, TableSchema, holds_content, part_of

# A key whose name is that of a media URL, with its value, within JSON text.
_ADDRESSES = '"(?:[^"]*[_/])?(?:url|uri|src)":"[^"]*"|"[^"]*(?:Url|URL|Uri|URI|Src)":"[^"]*"'


# A value in canonical JSON: a string, a list or an object with others in it, or anything else.
_STRING = r'"(?:[^"\\]|\\.)*"'
_NESTED = 10


def _value_pattern() -> str:
    within = rf'{_STRING}|[^\[\]{{}}"]'
    for _ in range(_NESTED):
        within = rf'{_STRING}|[^\[\]{{}}"]|[\[{{](?:{within})*[\]}}]'
    return rf'(?:{_STRING}|[\[{{](?:{within})*[\]}}]|[^\[\]{{}}",]*)'


_VALUE = _value_pattern()


# Characters that follow a letter in a decomposed text, in ranges with a few others.
_COMBINING = (
    r"[\x{300}-\x{36F}\x{653}-\x{655}\x{93C}-\x{DDF}\x{102E}\x{1161}-\x{11C2}\x{1B35}\x{3099}\x{309A}"
    r"\x{110BA}-\x{11930}]"
)


def unsigned(text: str, mapping: Mapping) -> str:
    """Return the expression of a text that is a URL, or of JSON text, without the queries of signed URLs."""
    replaced = f"regexp_replace({text}, {literal(mapping.signed_url_pattern)}, '\\1', 'g')"
    # Every URL with a query has both, and searching for them takes a tenth of the time.
    return f"CASE WHEN contains({text}, '?') AND contains({text}, '/') THEN {replaced} ELSE {text} END"


def _without_addresses(text: str) -> str:
    return f"regexp_replace({text}, '{_ADDRESSES}', '', 'g')"


def comparable(texts: str, mapping: Mapping) -> str:
    """Return the expression of a list of texts for comparison.

    One expression for all texts, because DuckDB compiles every pattern of a query. `nfc_normalize` takes ten times as
    long as finding out whether it would change a text.
    """
    stable = unsigned("one", mapping)
    decomposed = f"strlen(one) <> length(one) AND regexp_matches(one, '{_COMBINING}')"
    one = f"nullif(CASE WHEN {decomposed} THEN nfc_normalize({stable}) ELSE {stable} END, '')"
    return f"list_transform({texts}, lambda one: {one})"


def is_ignored(column: ColumnSchema, schema: TableSchema, mapping: Mapping) -> bool:
    """Return whether the mapping ignores a column: a field that fills it, in every list that fills its table."""
    pattern = mapping.ignored_pattern
    above = schema.lists or ("",)
    return pattern is not None and all(
        any(re.fullmatch(pattern, begin + path, re.DOTALL) for path in column.paths) for begin in above
    )


def is_compared(children: TableSchema, mapping: Mapping) -> bool:
    """Return whether the rows of a child table are compared, and thus their number.

    They are not if the mapping ignores all lists that fill the table, or all fields of their elements.
    """
    if mapping.ignored_pattern is None:
        return True
    ignored = re.compile(mapping.ignored_pattern, re.DOTALL)
    fields = [path for column in children.columns for path in column.paths]
    of_elements = [begin + path for begin in children.lists for path in fields]
    return not any(paths and all(map(ignored.fullmatch, paths)) for paths in (children.lists, of_elements))


def _text_unless_object(column: ColumnSchema, schema: TableSchema, row: str) -> str:
    """Return the expression of the value of a field that has objects, NULL for an object that is in other columns.

    A text may be spelled like an object, but then no column of a field below it has a value. A mapped column may have
    its value from elsewhere, so it shows an object only if it has the value there. Any other object has lists of
    objects; the addresses in these are not compared.
    """
    name, above = f"{row}.{quoted(column.name)}", column.paths[0]
    shown = ["false"]
    for one in schema.columns:
        other = f"{row}.{quoted(one.name)}"
        for path in one.paths:
            if not path.startswith(f"{above}/"):
                continue
            if one.field is not None:
                shown.append(f"{other} IS NOT NULL")
            else:
                value = f"TRY_CAST({name} AS JSON) ->> {literal(path.removeprefix(above))}"
                shown.append(f"({value}) = ({text_of(other, one.type)})::VARCHAR")
    lists = f"CASE WHEN contains({name}, '[{{') THEN {_without_addresses(name)} ELSE {name} END"
    return f"CASE WHEN {name} NOT LIKE '{{\"%}}' THEN {name} WHEN {' OR '.join(shown)} THEN NULL ELSE {lists} END"


def _present(column: ColumnSchema, schema: TableSchema, mapping: Mapping, row: str) -> str:
    """Return the expression of a value for comparison.

    Empty values are NULL, because a field gets no column before it has other values. Objects are NULL too if their
    fields have columns.
    """
    name = f"{row}.{quoted(column.name)}"
    if column.type.endswith("[]"):
        # Hashed separately, because DuckDB's hash of several values ignores a list that is NULL.
        if column.type == "VARCHAR[]":
            name = comparable(name, mapping)
        return f"CASE WHEN list_count({name}) > 0 THEN hash({name}) END"
    if column.field is None or column.type != "VARCHAR":
        return name
    kinds = column.field.json_types.keys()
    if JsonType.OBJECT in kinds and JsonType.MIXED not in kinds:
        name = _text_unless_object(column, schema, row)
    text = f"nullif(nullif({name}, '{{}}'), '[]')"
    return _without_addresses(text) if kinds & {JsonType.ROWS, JsonType.MIXED} else text


def _content(column: ColumnSchema, schema: TableSchema, mapping: Mapping, row: str) -> str:
    name = f"{row}.{quoted(column.name)}"
    if part_of(column, mapping) is Part.CONTENT:
        return _present(column, schema, mapping, row)
    # A column of counts may contain other values too; these are content.
    return f"CASE WHEN {count_of(name, column.type)} IS NULL THEN {_present(column, schema, mapping, row)} END"


def _hash(values: Sequence[str]) -> str:
    return f"hash({', '.join(['0', *values])})"


def _overflow(row: str, mapping: Mapping) -> str:
    text = f"{row}.overflow"
    if mapping.ignored_pattern is not None:
        # Without parsing the JSON: quotes within its strings are escaped, so a match begins at a key.
        pair = f'"{mapping.ignored_pattern}":{_VALUE}'
        text = f"nullif(regexp_replace({text}, {literal(f'{pair},|,?{pair}')}, '', 'g'), '{{}}')"
    return _without_addresses(text)


def _compared(schema: TableSchema, mapping: Mapping) -> Sequence[ColumnSchema]:
    """Return the columns of content, without those that the mapping ignores."""
    return [
        column
        for column in schema.columns
        if holds_content(column, mapping) and not is_ignored(column, schema, mapping)
    ]


def content_of(schema: TableSchema, mapping: Mapping, row: str, *more: str) -> str:
    """Return the hash expression of a row's content (without counts and media URLs) and of `more` expressions."""
    columns = _compared(schema, mapping)
    texts = [_content(column, schema, mapping, row) for column in columns if column.type == "VARCHAR"]
    others = [_content(column, schema, mapping, row) for column in columns if column.type != "VARCHAR"]
    if schema.table == mapping.table:
        texts.append(_overflow(row, mapping))
    listed = [f"hash({comparable('[' + ', '.join(texts) + ']', mapping)})"] if texts else []
    return _hash([*others, *listed, *more])


def changed_columns(schema: TableSchema, mapping: Mapping, old: str, new: str) -> str:
    """Return the expression of the names of the columns in which the content of two rows differs, in order of name."""
    columns = _compared(schema, mapping)
    texts = [column for column in columns if column.type == "VARCHAR"]
    of_rows = [
        (one, [_content(one, schema, mapping, row) for row in (old, new)]) for one in columns if one not in texts
    ]
    differing = [f"CASE WHEN {' IS DISTINCT FROM '.join(two)} THEN {literal(one.name)} END" for one, two in of_rows]
    names = f"[{', '.join(literal(one.name) for one in texts)}]"
    rows = (
        comparable(f"[{', '.join(_content(one, schema, mapping, row) for one in texts)}]", mapping)
        for row in (old, new)
    )
    pairs = f"list_zip({names}, {', '.join(rows)})"
    in_texts = f"list_transform({pairs}, lambda one: CASE WHEN one[2] IS DISTINCT FROM one[3] THEN one[1] END)"
    found = f"list_concat([{', '.join(differing)}]::VARCHAR[], {in_texts})"
    return f"list_sort(list_filter({found}, lambda one: one IS NOT NULL))"


def counts_hash(schema: TableSchema, mapping: Mapping, row: str, *more: str) -> str:
    """Return the hash expression of a row's counts and of `more` expressions."""
    counts = (
        count_of(f"{row}.{quoted(column.name)}", column.type)
        for column in schema.columns
        if part_of(column, mapping) is Part.COUNT and not is_ignored(column, schema, mapping)
    )
    return _hash([*counts, *more])


def _content_text(mapping: Mapping) -> str:
    """Return the expression of a payload's text without counts and the queries of signed URLs.

    Quotes within JSON strings are escaped, so a match of a key with a number is never inside of a string.
    """
    key, count = f'"{mapping.count_key_pattern}":', "-?[0-9]+(?:\\.0+)?"
    pair = f'{key}(?:{count}|"{count}"|null)'
    # Numbers with a fraction are not counts: the first alternative keeps them.
    fraction = f"(,?{key}-?[0-9]+(?:\\.[0-9]*[1-9]|(?:\\.[0-9]+)?[eE]))"
    text = unsigned("payload::VARCHAR", mapping)
    return f"regexp_replace({text}, {literal(f'{fraction}|,{pair}|{pair},?')}, '\\1', 'g')"


def digest_of(mapping: Mapping) -> str:
    """Return the expression of the digest of a rejected record's `payload`, a BIGINT."""
    return f"(md5_number_lower({_content_text(mapping)}) >> 1)::BIGINT"
