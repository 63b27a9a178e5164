"""The code broken on purpose, place by place, each with the tests that must notice."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """What `path` says once as `old`, said as `new`; the tests of `caught_by` must fail on it."""

    name: str
    path: str
    old: str
    new: str
    caught_by: tuple[str, ...]


MUTANTS = (
    Mutant(
        "a checkpoint without its rows",
        "connectors/warehouse/landing.py",
        '        page=as_json(_staged(seq, landing.page)) if landing.page else "",\n',
        '        page=as_json(_staged(seq, landing.page)) if landing.page and landing.outcomes else "",\n',
        ("tests/warehouse/test_warehouse_landing.py", "tests/flows/test_flows_walking.py"),
    ),
    Mutant(
        "rows without their checkpoint",
        "connectors/warehouse/landing.py",
        '        checkpoint=as_json(_checkpoint(seq, landing.checkpoint)) if landing.checkpoint else "",\n',
        "        checkpoint=as_json(_checkpoint(seq, landing.checkpoint))"
        ' if landing.outcomes and landing.checkpoint else "",\n',
        ("tests/warehouse/test_warehouse_landing.py", "tests/flows/test_flows_walking.py"),
    ),
    Mutant(
        "an item given twice is kept twice",
        "connectors/warehouse/fold_media.py",
        "    FROM media_read WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')\n"
        "    GROUP BY account_id, surface, media_id\n",
        "    FROM media_read WHERE _seq > getvariable('slice_begin') AND _seq <= getvariable('slice_end')\n"
        "    GROUP BY account_id, surface, media_id, _place\n",
        ("tests/warehouse/test_warehouse_fold_media.py",),
    ),
    Mutant(
        "a widened column loses what earlier versions held",
        "connectors/warehouse/alterations.py",
        "    _fill(connection, mapping, registry, SUPERSEDED, of_versions)\n",
        "",
        ("tests/warehouse/test_warehouse_typed_history.py",),
    ),
    Mutant(
        "a version has the columns of the one after it",
        "connectors/warehouse/fold_history.py",
        "account_id, surface, media_id, version, arg_min(seen_at, place) AS valid_from, max(place) AS place,",
        "account_id, surface, media_id, version, arg_min(seen_at, place) AS valid_from, max(place) + 1 AS place,",
        ("tests/warehouse/test_warehouse_typed_history.py",),
    ),
    Mutant(
        "an account listed twice is kept twice",
        "connectors/warehouse/fold_accounts.py",
        "    QUALIFY row_number() OVER (PARTITION BY s.account_id ORDER BY s.seq DESC, s.position DESC) = 1\n",
        "",
        ("tests/warehouse/test_warehouse_fold_accounts.py",),
    ),
    Mutant(
        "tombstones after a partial walk",
        "connectors/warehouse/fold.py",
        "WHERE (c.state = 'complete' OR (c.state = 'recent' AND w.complete_at IS NOT NULL))\n",
        "WHERE true\n",
        ("tests/warehouse/test_warehouse_removal.py",),
    ),
    Mutant(
        "an old walk overrules a newer one",
        "connectors/warehouse/fold.py",
        "  AND coalesce(w.seq <= b.began_seq, true)",
        "",
        ("tests/warehouse/test_warehouse_lanes.py",),
    ),
    Mutant(
        "a second scan confirms at once",
        "models/removal.py",
        "\nCONFIRM_AFTER_HOURS = 1",
        "\nCONFIRM_AFTER_HOURS = 0",
        ("tests/warehouse/test_warehouse_removal.py",),
    ),
    Mutant(
        "an empty catalogue confirms that accounts are gone",
        "connectors/warehouse/account_removal.py",
        "    w.lists_any AND coalesce(",
        "    coalesce(",
        ("tests/warehouse/test_warehouse_account_removal.py", "tests/flows/test_flows_accounts.py"),
    ),
    Mutant(
        "a key with fewer grants removes accounts",
        "models/removal.py",
        "ACCOUNTS_LIMIT = 0.1",
        "ACCOUNTS_LIMIT = 1.0",
        ("tests/warehouse/test_warehouse_account_removal.py", "tests/flows/test_flows_accounts.py"),
    ),
    Mutant(
        "a later catalogue confirms at once",
        "models/removal.py",
        "ACCOUNTS_CONFIRM_AFTER_HOURS = 12",
        "ACCOUNTS_CONFIRM_AFTER_HOURS = 0",
        ("tests/warehouse/test_warehouse_account_removal.py",),
    ),
    Mutant(
        "another service fills the warehouse",
        "connectors/warehouse/service.py",
        "    if bound not in {None, base_url}:",
        "    if bound not in {None, base_url, bound}:",
        ("tests/flows/test_flows_accounts.py",),
    ),
    Mutant(
        "an id in another case is another account",
        "connectors/warehouse/account_ids.py",
        "SELECT lower(account_id) AS uuid,",
        "SELECT account_id AS uuid,",
        ("tests/warehouse/test_warehouse_fold_accounts.py",),
    ),
    Mutant(
        "an account with an unknown status gets no outcome",
        "flows/rounds.py",
        "    batches.send_off([account for account in unknown.values() if account.account_id in known])\n",
        "",
        ("tests/flows/test_flows_accounts.py",),
    ),
    Mutant(
        "a run from the future is resumed",
        "models/ledger.py",
        "    return timedelta(0) <= now - began <= within\n",
        "    return now - began <= within\n",
        ("tests/flows/test_flows_clock.py",),
    ),
    Mutant(
        "a listing without an end goes on for ever",
        "connectors/source/pagination.py",
        "            self.repeated += 1\n",
        "            self.repeated += 0\n",
        ("tests/source/test_source_pagination.py",),
    ),
    Mutant(
        "no brake against mass disappearance",
        "models/removal.py",
        "POSTS_BRAKE = 0.5",
        "POSTS_BRAKE = 2.0",
        ("tests/warehouse/test_warehouse_removal.py",),
    ),
    Mutant(
        "an empty page ends a walk",
        "models/walk.py",
        "state=WalkState.COMPLETE if next_cursor is None else WalkState.WALKING",
        "state=WalkState.COMPLETE if next_cursor is None or not items else WalkState.WALKING",
        ("tests/models/test_walk.py", "tests/flows/test_flows_walking.py"),
    ),
    Mutant(
        "a loop of cursors goes on for ever",
        "connectors/source/pagination.py",
        "        if digest in self._seen:\n",
        "        if False:\n",
        ("tests/source/test_source_pagination.py",),
    ),
    Mutant(
        "Retry-After is clamped",
        "connectors/source/backoff.py",
        "    least = max(wait, policy.least_wait)\n",
        "    least = max(min(wait, policy.cap), policy.least_wait)\n",
        ("tests/source/test_source_backoff.py",),
    ),
    Mutant(
        "a promise to wait dies with the process",
        "connectors/warehouse/progress.py",
        "    return {row.scope: row.until for row in rows}\n",
        "    return {row.scope: row.until for row in rows if False}\n",
        ("tests/warehouse/test_warehouse_progress.py",),
    ),
    Mutant(
        "one account's wait holds up the others",
        "flows/slots.py",
        "        self.give()\n        self.parked += 1\n",
        "        await self.take()\n        self.give()\n        self.parked += 1\n",
        ("tests/flows/test_flows_slots.py",),
    ),
    Mutant(
        "a request is sent again unseen",
        "connectors/source/transport.py",
        "            middlewares=(_once,),\n",
        "",
        ("tests/source/test_source_transport.py",),
    ),
    Mutant(
        "data that was not requested is the next answer",
        "connectors/source/transport.py",
        "            if not protocol.should_close:\n",
        "            if True:\n",
        ("tests/source/test_source_transport.py",),
    ),
    Mutant(
        "a long scan waits for the short ones",
        "flows/slots.py",
        "(-(pages // _LONG), next(self._arrivals), turn)",
        "(0, next(self._arrivals), turn)",
        ("tests/flows/test_flows_slots.py",),
    ),
    Mutant(
        "the key in an error",
        "connectors/source/client.py",
        'self._repeated.sub(b"***", body if',
        'b"".join([b"", body] if',
        ("tests/security/test_security_key.py",),
    ),
    Mutant(
        "media of expired accounts are asked for",
        "flows/batches.py",
        "(means.walk_expired or not account.expired)",
        "(not means.walk_expired or not account.expired)",
        ("tests/flows/test_flows_pipeline.py",),
    ),
    Mutant(
        "a backfill takes the nightly's place",
        "flows/pipeline.py",
        "        order.within,\n        order.kind,\n",
        '        order.within,\n        "sync",\n',
        ("tests/flows/test_flows_backfill.py",),
    ),
    Mutant(
        "two writers",
        "connectors/warehouse/holder.py",
        "_try_lock(file, fcntl.LOCK_EX)",
        "_try_lock(file, fcntl.LOCK_SH)",
        ("tests/warehouse/test_warehouse_holder.py",),
    ),
    Mutant(
        "the old snapshot goes before the new one is whole",
        "connectors/warehouse/publish.py",
        "    draft = draft_of(snapshot)\n",
        "    snapshot.unlink(missing_ok=True)\n    draft = draft_of(snapshot)\n",
        ("tests/warehouse/test_warehouse_publish.py",),
    ),
    Mutant(
        "the log forgets which account was retried",
        "flows/walking.py",
        'return {"partition": str(self.partition), "account": account, "username": self.username}',
        'return {"partition": str(self.partition), "account": account, "username": None}',
        ("tests/flows/test_flows_json_log.py",),
    ),
    Mutant(
        "a partition that failed is still expected",
        "flows/run.py",
        "            self.items_left -= max(expected - items, 0)\n",
        "            self.items_left -= 0\n",
        ("tests/flows/test_flows_pace.py",),
    ),
    Mutant(
        "the start of a run decides its estimate for ever",
        "flows/pace.py",
        "_WINDOW: Final = 60.0",
        "_WINDOW: Final = 6000.0",
        ("tests/flows/test_flows_pace.py",),
    ),
    Mutant(
        "an error code breaks the metrics",
        "flows/cli/openmetrics.py",
        "return steerless(text).replace(",
        "return text.replace(",
        ("tests/flows/test_flows_openmetrics.py",),
    ),
    Mutant(
        "a field's name is a template of dbt",
        "flows/cli/dbt.py",
        'return _TEMPLATE.sub(" ", text or "")',
        'return text or ""',
        ("tests/handoff/test_handoff_dbt.py",),
    ),
    Mutant(
        "a key that is not unique",
        "models/relations.py",
        'Relation((*_ITEM, "metric", "observed_at"), _OF_ITEM, is_unique=False)',
        'Relation((*_ITEM, "metric"), _OF_ITEM, is_unique=False)',
        ("tests/handoff/test_handoff_dbt.py",),
    ),
    Mutant(
        "a part that nobody knows is taken for one of ours",
        "connectors/warehouse/raw/recovery.py",
        "    if strange:\n",
        "    if strange and not found:\n",
        ("tests/warehouse/test_raw_store.py",),
    ),
    Mutant(
        "a part of another size is read",
        "connectors/warehouse/raw/recovery.py",
        "        if found[part.number] != part.bytes:\n",
        "        if found[part.number] > part.bytes:\n",
        ("tests/warehouse/test_raw_store.py",),
    ),
    Mutant(
        "a retired part is deleted while a snapshot lists it",
        "connectors/warehouse/raw/recovery.py",
        "if part.unlisted_at is not None and part.unlisted_at + _STILL_READ <= now]",
        "if part.retired_at is not None]",
        ("tests/warehouse/test_raw_store.py",),
    ),
    Mutant(
        "retention deletes the bytes of versions",
        "connectors/warehouse/raw/compaction.py",
        "SELECT raw_landed FROM core.media_superseded WHERE raw_landed IS NOT NULL\n",
        "SELECT raw_landed FROM core.media_superseded WHERE false\n",
        ("tests/warehouse/test_raw_store.py", "tests/warehouse/test_raw_media.py"),
    ),
    Mutant(
        "a changed item leaves no bytes",
        "connectors/warehouse/fold_media.py",
        "FROM media_read AS r JOIN media_items AS i ON i.place = r._place JOIN",
        "FROM (FROM media_read LIMIT 1) AS r JOIN media_items AS i ON i.place = r._place JOIN",
        ("tests/warehouse/test_raw_media.py",),
    ),
    Mutant(
        "an upgraded item's row has older bytes than its versions",
        "connectors/warehouse/opening.py",
        '_MOVED = (("media_superseded", "valid_from"), ("media", "changed_at"))',
        '_MOVED = (("media", "changed_at"), ("media_superseded", "valid_from"))',
        ("tests/warehouse/test_warehouse_migrations.py",),
    ),
)
