"""The fetch alone: the same pages in the same order, fetched with httpx over aiohttp and discarded.

    python -m benchmarks.candidates.floor URL [--concurrency 16]

Scans the catalogue and the posts of up to `--concurrency` accounts at once; it searches each page only for the next
cursor. Prints the number of pages and bytes as JSON. No sync that uses httpx can be faster on one core.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Callable

import httpx
from httpx_aiohttp import AiohttpTransport

_ID = re.compile(rb'"id": ?"([0-9a-f-]{36})"')
_CURSOR = re.compile(rb'"next_cursor": ?(?:null|"([^"]*)")\}$')


async def fetch(url: str, concurrency: int, use: Callable[[bytes], object] = len) -> dict[str, int]:
    """Fetch everything, and call `use` with each page of posts; return the number of pages and bytes."""
    fetched = {"pages": 0, "bytes": 0}
    slots = asyncio.Semaphore(concurrency)
    headers = {"Authorization": "Bearer bench-key", "Accept": "application/json"}

    async with httpx.AsyncClient(transport=AiohttpTransport(), headers=headers, timeout=60) as client:

        async def page(path: str, params: dict[str, str], cursor: str | None) -> tuple[bytes, str | None]:
            if cursor is not None:
                params = {**params, "cursor": cursor}
            response = await client.get(f"{url}{path}", params=params)
            response.raise_for_status()
            body = response.content
            fetched["pages"] += 1
            fetched["bytes"] += len(body)
            match = _CURSOR.search(body, max(0, len(body) - 1100))
            return body, match[1].decode() if match and match[1] is not None else None

        async def scan(account: str) -> None:
            try:
                cursor = None
                while True:
                    body, cursor = await page(
                        f"/api/v1/accounts/{account}/media", {"surface": "posts", "limit": "50"}, cursor
                    )
                    use(body)
                    if cursor is None:
                        return
            finally:
                slots.release()

        async with asyncio.TaskGroup() as group:
            cursor = None
            while True:
                body, cursor = await page("/api/v1/accounts", {"limit": "50"}, cursor)
                for account in _ID.findall(body):
                    await slots.acquire()
                    group.create_task(scan(account.decode()))
                if cursor is None:
                    break
    return fetched


def main() -> None:
    """Fetch everything and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--concurrency", type=int, default=16)
    args = parser.parse_args()
    print(json.dumps(asyncio.run(fetch(args.url, args.concurrency))))


if __name__ == "__main__":
    main()
