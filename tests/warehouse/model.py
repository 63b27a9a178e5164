"""What the store should contain, found out the slow way: one landing after the other, in dictionaries.

It knows records with `id`, `timestamp`, `permalink`, `caption`, `media_url` and `like_count` only.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from models.landing import Landing
from models.partition import Partition

Key = tuple[str, str, str]
CONTENT = ("caption", "permalink", "published_at")


@dataclass
class Model:
    """Expected rows, by table."""

    media: dict[Key, dict[str, Any]] = field(default_factory=dict)
    versions: list[tuple[Any, ...]] = field(default_factory=list)
    counts: list[tuple[Any, ...]] = field(default_factory=list)
    events: list[tuple[Any, ...]] = field(default_factory=list)
    closed: dict[Partition, int] = field(default_factory=dict)
    undecided: set[str] = field(default_factory=set)
    runs: Counter[tuple[int, str]] = field(default_factory=Counter)
    raw: list[tuple[int, int]] = field(default_factory=list)

    def land(self, page: Landing) -> None:
        """Merge one page."""
        for position, record in enumerate(json.loads(page.body)["items"]):
            if "id" in record:
                self._list(page, position, record)
            else:
                self.undecided.add(page.scan_id)
        if page.end is not None:
            self._close(page)

    def _list(self, page: Landing, position: int, record: dict[str, Any]) -> None:
        key = page.partition.account_id, page.partition.surface, record["id"]
        at = datetime.fromisoformat(record["timestamp"]).astimezone(UTC)
        told: dict[str, Any] = {
            **{name: record.get(name) for name in ("caption", "permalink", "media_url", "like_count")},
            "published_at": at,
        }
        row = self.media.get(key)
        seen = {"seen_seq": page.seq, "last_seen_at": page.received_at}
        clear = {"missed_at": None, "confirmed_by": None, "removed_at": None, "removal": None}
        place = {"raw_landed": page.seq, "raw_position": position}
        if row is None:
            self.media[key] = {
                **told, **seen, **clear, **place, "present_seq": page.seq, "first_seen_at": page.received_at,
                "first_run_seq": page.run_seq, "changed_at": page.received_at, "content_changed_at": page.received_at,
                "run_seq": page.run_seq,
            }  # fmt: skip
            self._count(page, key, None, told["like_count"])
            self.raw.append((page.seq, position))
            self.runs[page.run_seq, "added"] += 1
            return
        if row["removed_at"] is not None:
            row["present_seq"] = page.seq
            self.events.append((*key, "returned", page.received_at, page.run_seq))
            self.runs[page.run_seq, "returned"] += 1
        changed = sorted(name for name in CONTENT if row[name] != told[name])
        if row["seen_seq"] >= page.began_seq and {"permalink", "published_at"} & set(changed):
            self.undecided.add(page.scan_id)
        if changed:
            content = {name: row[name] for name in CONTENT if row[name] is not None}
            times = row["content_changed_at"], page.received_at
            self.versions.append((*key, *times, content, changed, row["raw_landed"], row["raw_position"], page.run_seq))
            row["content_changed_at"] = page.received_at
        if changed or row["like_count"] != told["like_count"]:
            self._count(page, key, row["like_count"], told["like_count"])
            row.update(changed_at=page.received_at, run_seq=page.run_seq, **place)
            self.raw.append((page.seq, position))
            self.runs[page.run_seq, "changed"] += 1
        row.update(**told, **seen, **clear)

    def _count(self, page: Landing, key: Key, before: int | None, now: int | None) -> None:
        if before != now:
            self.counts.append((*key, "like_count", now, page.received_at, page.run_seq))

    def _close(self, page: Landing) -> None:
        end, partition = page.end, page.partition
        assert end is not None
        before = self.closed.get(partition)
        if (before is None and end.state == "recent") or (before is not None and before > page.began_seq):
            return
        self.closed[partition] = page.seq
        if page.scan_id in self.undecided or end.had_expired_token:
            return
        for key, row in self.media.items():
            is_covered = end.state == "complete" or (end.read_to is not None and row["published_at"] > end.read_to)
            if key[:2] != (partition.account_id, partition.surface) or row["removed_at"] is not None:
                continue
            if row["seen_seq"] >= page.began_seq or not is_covered:
                continue
            if row["missed_at"] is None:
                row["missed_at"] = page.received_at
                self.runs[page.run_seq, "missed"] += 1
                if key[1] == "stories" and page.received_at - row["published_at"] >= timedelta(hours=24):
                    row.update(removed_at=page.received_at, removal="expired", run_seq=page.run_seq)
                    self.events.append((*key, "expired", page.received_at, page.run_seq))
                    self.runs[page.run_seq, "expired"] += 1
            elif end.started_at >= row["missed_at"] + timedelta(hours=1):
                row["confirmed_by"] = page.run_seq

    def end_run(self, run_seq: int) -> None:
        """Remove what is confirmed; it is never too much here."""
        for key, row in self.media.items():
            if row["confirmed_by"] is not None:
                row.update(removed_at=row["missed_at"], removal="removed", run_seq=run_seq, confirmed_by=None)
                self.events.append((*key, "removed", row["missed_at"], run_seq))
                self.runs[run_seq, "removed"] += 1
