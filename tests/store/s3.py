"""An S3 server on this machine, for as long as a block runs."""

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def s3_server(bucket: str = "bucket") -> Iterator[dict[str, str]]:
    """Serve S3 with an empty bucket; yields the environment by which clients find it."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - takes a second

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        making = urllib.request.Request(f"{url}/{bucket}", method="PUT")
        urllib.request.urlopen(making).close()
        yield {
            "AWS_ENDPOINT_URL": url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
        }
    finally:
        server.stop()
