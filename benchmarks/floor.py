"""The fetch alone: the same pages in the same order, asked for by httpx over aiohttp, and thrown away.

    python -m benchmarks.floor URL [--concurrency 16]

Scans the catalogue, then every account's posts, so many at once; of a page it only looks for the next cursor. Prints
what it fetched as JSON. No sync that asks with httpx can be faster on one core.
"""

import argparse
import asyncio
import json
import re

import httpx
from httpx_aiohttp import AiohttpTransport

_ID = re.compile(rb'"id": ?"([0-9a-f-]{36})"')
_CURSOR = re.compile(rb'"next_cursor": ?(?:null|"([^"]*)")\}$')


async def fetch(url: str, concurrency: int) -> dict[str, int]:
    """Fetch everything; return the pages and bytes."""
    spent = {"pages": 0, "bytes": 0}
    gate = asyncio.Semaphore(concurrency)
    headers = {"Authorization": "Bearer bench-key", "Accept": "application/json"}

    async with httpx.AsyncClient(transport=AiohttpTransport(), headers=headers, timeout=60) as client:

        async def page(path: str, params: dict[str, str], cursor: str | None) -> tuple[bytes, str | None]:
            if cursor is not None:
                params = {**params, "cursor": cursor}
            answer = await client.get(f"{url}{path}", params=params)
            answer.raise_for_status()
            body = answer.content
            spent["pages"] += 1
            spent["bytes"] += len(body)
            found = _CURSOR.search(body, max(0, len(body) - 1100))
            return body, found[1].decode() if found and found[1] is not None else None

        async def scan(account: str) -> None:
            try:
                cursor = None
                while True:
                    _, cursor = await page(
                        f"/api/v1/accounts/{account}/media", {"surface": "posts", "limit": "50"}, cursor
                    )
                    if cursor is None:
                        return
            finally:
                gate.release()

        async with asyncio.TaskGroup() as group:
            cursor = None
            while True:
                body, cursor = await page("/api/v1/accounts", {"limit": "50"}, cursor)
                for account in _ID.findall(body):
                    await gate.acquire()
                    group.create_task(scan(account.decode()))
                if cursor is None:
                    break
    return spent


def main() -> None:
    """Fetch, and print what was fetched."""
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("url")
    wanted.add_argument("--concurrency", type=int, default=16)
    chosen = wanted.parse_args()
    print(json.dumps(asyncio.run(fetch(chosen.url, chosen.concurrency))))


if __name__ == "__main__":
    main()
