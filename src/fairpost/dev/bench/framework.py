"""The bare framework, for comparison. This service uses the same server and validates e-mails in the same way, but
returns a constant answer. The service uses no middleware, key or database.
"""

import sys

from fastapi import FastAPI

from fairpost.api.clients import ClientLimits
from fairpost.api.serve import listener_on, run_processes
from fairpost.api.shapes.emails import EmailIn


def create() -> FastAPI:
    app = FastAPI()

    @app.post("/v1/emails")
    async def send(email: EmailIn) -> dict[str, object]:
        return {"success": True, "data": {"id": "1", "new": True}}

    return app


if __name__ == "__main__":
    listener = listener_on("127.0.0.1", 0)
    sys.stderr.write(f"ready: http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stderr.flush()
    run_processes(
        "fairpost.dev.bench.framework:create",
        listener,
        processes=int(sys.argv[1]),
        limits=ClientLimits(connections_max=1_000),
    )
