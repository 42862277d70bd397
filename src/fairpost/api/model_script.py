"""The script `model.js`: states and events as the model defines them, for the pages."""

import json

from fairpost.model.event import EventKind
from fairpost.model.states import FINAL, NEVER_SENT, RETRYABLE, UNFINISHED, WAITING, ReceiptState, State

_ENDED = {str(state) for state in FINAL} | {State.IN_DOUBT}

VALUES = {
    "STATES": list(State),
    "FINAL": [state for state in State if state in FINAL],
    "UNFINISHED": [state for state in State if state in UNFINISHED],
    "WAITING": WAITING,
    "RETRYABLE": RETRYABLE,
    "NEVER_SENT": NEVER_SENT,
    "QUEUED": [state for state in ReceiptState if state not in _ENDED],
    "EVENTS": list(EventKind),
}


def model_script() -> bytes:
    return "".join(f"export const {name} = {json.dumps(value)};\n" for name, value in VALUES.items()).encode()
