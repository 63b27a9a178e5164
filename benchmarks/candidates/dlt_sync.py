"""The same sync with dlt: every account's posts into DuckDB. Runs in dlt's virtual environment.

    python -m benchmarks.candidates.dlt_sync URL FOLDER append|merge

Tuned as dlt's documentation recommends: whole pages are yielded, scans run in parallel threads, extraction, normalizing
and loading have several workers (set by environment variables, see benchmarks.candidates.jobs), and files are Parquet.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt
from dlt.sources.helpers.rest_client import RESTClient
from dlt.sources.helpers.rest_client.auth import BearerTokenAuth
from dlt.sources.helpers.rest_client.paginators import JSONResponseCursorPaginator


def source(url: str, disposition: str) -> Any:  # noqa: ANN401 - dlt is not installed where mypy runs
    """Return two resources: the accounts, and their posts as a transformer of the accounts."""
    client = RESTClient(
        base_url=f"{url}/api/v1/",
        auth=BearerTokenAuth("bench-key"),
        paginator=JSONResponseCursorPaginator(cursor_path="next_cursor", cursor_param="cursor"),
        data_selector="items",
    )

    def accounts() -> Iterator[Any]:
        # Yielded one by one, because each becomes one parallel scan.
        for page in client.paginate("accounts", params={"limit": 50}):
            yield from page

    def media(account: dict[str, Any]) -> Iterator[Any]:
        posts = {"surface": "posts", "limit": 50}
        for items in client.paginate(f"accounts/{account['id']}/media", params=posts):
            yield [{**item, "account_id": account["id"]} for item in items]

    listed = dlt.resource(accounts, name="accounts", write_disposition=disposition, primary_key="id", parallelized=True)
    scanned = dlt.transformer(
        media,
        data_from=listed,
        name="media",
        write_disposition=disposition,
        primary_key=["account_id", "id"],
        parallelized=True,
    )
    return [listed, scanned]


def main() -> None:
    """Load the data and print how many items were loaded."""
    url, folder, disposition = sys.argv[1:]
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=str(Path(folder) / "pipelines"),
        destination=dlt.destinations.duckdb(str(Path(folder) / "dlt.duckdb")),
        dataset_name="bench",
    )
    loaded = pipeline.run(source(url, disposition), loader_file_format="parquet")
    loaded.raise_on_failed_jobs()
    counts = pipeline.last_trace.last_normalize_info.row_counts
    print(json.dumps({"items": counts["media"], "accounts": counts["accounts"]}))


if __name__ == "__main__":
    main()
