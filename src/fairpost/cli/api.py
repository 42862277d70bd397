"""`fairpost api`: the service over HTTP."""

import os
from typing import Annotated

import typer

from fairpost.cli.arguments import LogFormatOption, host_and_port
from fairpost.cli.output import print_json
from fairpost.settings import read_settings


def api(
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address and port to listen on.")] = "127.0.0.1:8080",
    processes: Annotated[int, typer.Option(min=1, max=64, help="Number of server processes.")] = 1,
    openapi: Annotated[bool, typer.Option("--openapi", help="Print the OpenAPI document and exit.")] = False,
    log_format: LogFormatOption = None,
) -> None:
    """Serve the HTTP API and the web pages.

    Clients need a workspace (`fairpost workspace add`) and a key (`fairpost key add`). On SIGHUP, the service restarts
    its processes one at a time without dropping requests. Put a TLS proxy in front of the service.

    \b
    Example: fairpost api --listen 127.0.0.1:8080 --processes 2
    """
    from fairpost.api.serve import ServerOptions
    from fairpost.startup.logs import start_logging
    from fairpost.startup.service import document, run_service

    if openapi:
        print_json(document())
        return
    host, port = host_and_port(listen, default="127.0.0.1:8080")
    settings = read_settings()
    if log_format is not None:
        os.environ["FAIRPOST_LOG_FORMAT"] = log_format  # read by the server processes
    options = ServerOptions(host=host, port=port, processes=processes)
    run_service(settings, options, log=start_logging(settings, log_format=log_format))
