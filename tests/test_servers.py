import asyncio
import gc
import socket

import pytest

from tests.servers import listening


# How far the event loop has come with accepting the connection depends on the version of Python.
@pytest.mark.parametrize("steps", range(6))
def test_a_connection_that_is_being_accepted_is_closed_at_the_end(steps: int) -> None:
    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def accept_and_stop() -> None:
        with socket.socket() as client:
            async with listening(meet) as port:
                client.connect(("127.0.0.1", port))
                for _ in range(steps):
                    await asyncio.sleep(0)

    asyncio.run(accept_and_stop())
    # An open socket gives a warning when it is collected, which fails the test.
    gc.collect()


def test_an_error_of_the_handler_closes_the_connection_and_is_raised() -> None:
    error = ValueError("of the handler")

    async def meet(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        raise error

    async def call() -> None:
        async with listening(meet) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()

    with pytest.raises(ValueError, match="of the handler"):
        asyncio.run(call())
