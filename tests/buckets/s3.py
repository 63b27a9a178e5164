"""A local S3 server."""

import logging
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread


@contextmanager
def s3_server(bucket: str = "bucket") -> Iterator[dict[str, str]]:
    """Serve S3 with an empty bucket; yield the environment variables for its clients."""
    from moto.moto_server.werkzeug_app import (  # noqa: PLC0415 - takes a second
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server  # noqa: PLC0415

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # One request at a time: Moto checks whether an object exists and then writes it, so that of two concurrent requests
    # to create one it would accept both.
    moto = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, moto, request_handler=MotoRequestHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
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
        server.shutdown()
        thread.join()
        server.server_close()
