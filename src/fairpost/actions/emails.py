"""Actions on individual e-mails: cancel, retry and resolve."""

from collections.abc import Callable
from dataclasses import dataclass

import asyncpg

from fairpost.actions.acting import Actor, action
from fairpost.model.errors import NotFound, Refusal
from fairpost.model.ids import EmailId
from fairpost.model.states import RETRYABLE, WAITING, Decision, State
from fairpost.observe.emails import ShownEmail, show_email
from fairpost.store import pinned
from fairpost.store.store import Store

NOT_OWN = "FP004"  # the database's error code for an e-mail that belongs to another workspace
RETRIED_AT_ONCE = 500

DECIDED = {"sent": (State.SENT,), "failed": (State.FAILED,), "resend": WAITING}


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelEmail:
    id: EmailId
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryEmail:
    id: EmailId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolveEmail:
    id: EmailId
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryFailed:
    """Selects all e-mails that failed for a given reason. With `is_dry`, the e-mails are only counted."""

    reason: str
    workspace: str | None = None
    account: str | None = None
    is_dry: bool = False
    progress: Callable[[int], None] = lambda done: None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailMoved:
    """The old and new states of an e-mail. `changed` is True if this action changed the state."""

    id: EmailId
    before: State
    state: State
    changed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRetried:
    retried: int
    still_suspended: int


@action("email.cancel")
async def cancel(actor: Actor, request: CancelEmail, store: Store) -> EmailMoved:
    email = await _email(store, request.id)
    state = await store.cancel(email.id, reason=request.reason)
    if state != State.CANCELLED:
        raise Refusal("email.not_cancellable", id=str(email.id), state=state)
    changed = email.state is not State.CANCELLED
    if changed:
        await actor.record(store, "email.cancel", f"email {email.id}", workspace=email.workspace, reason=request.reason)
    return EmailMoved(id=email.id, before=email.state, state=State.CANCELLED, changed=changed)


@action("email.retry")
async def retry(actor: Actor, request: RetryEmail, store: Store) -> EmailMoved:
    email = await _email(store, request.id)
    state = await store.retry(email.id) if email.state in RETRYABLE else email.state
    if state != "waiting":
        raise Refusal("email.not_retryable", id=str(email.id), state=state)
    await actor.record(store, "email.retry", f"email {email.id}", workspace=email.workspace)
    return EmailMoved(id=email.id, before=email.state, state=State.READY)


@action("email.resolve")
async def resolve(actor: Actor, request: ResolveEmail, store: Store) -> EmailMoved:
    """Resolves an e-mail in doubt. A repeated request succeeds but changes nothing."""
    email = await _email(store, request.id)
    state = await store.resolve(email.id, request.decision, by="operator" if actor.is_operator else actor.who)
    if state is None:
        now = (await _email(store, request.id)).state
        if now not in DECIDED[request.decision]:
            raise Refusal("email.not_in_doubt", id=str(email.id), state=now)
        return EmailMoved(id=email.id, before=now, state=now, changed=False)
    after = State.READY if state == "waiting" else State(state)
    await actor.record(
        store, "email.resolve", f"email {email.id}", workspace=email.workspace, decision=request.decision
    )
    return EmailMoved(id=email.id, before=email.state, state=after)


@action("email.retry_failed", in_one_commit=False)
async def retry_failed(actor: Actor, request: RetryFailed, store: Store) -> FailedRetried:
    """Retries failed e-mails, a few hundred per commit. E-mails whose account is still suspended are not retried."""
    retried = left = 0
    for workspace in [request.workspace] if request.workspace else await pinned.workspaces_with_failed(store):
        after: int | None = 0
        while after is not None:
            async with store.together() as one:
                batch = await pinned.retry_failed(
                    one,
                    workspace,
                    request.reason,
                    account=request.account,
                    after=after,
                    is_dry=request.is_dry,
                    most=RETRIED_AT_ONCE,
                )
                if batch.retried and not request.is_dry:
                    about = {"account": request.account, "emails": batch.retried}
                    await actor.record(one, "email.retry_failed", request.reason, workspace=workspace, **about)
            retried, left, after = retried + batch.retried, left + batch.still_suspended, batch.last
            request.progress(retried)
    return FailedRetried(retried=retried, still_suspended=left)


async def _email(store: Store, id_: EmailId) -> ShownEmail:
    try:
        return await show_email(store, id_)
    except NotFound:
        pass
    except asyncpg.PostgresError as error:
        if error.sqlstate != NOT_OWN:
            raise
    raise Refusal("email.unknown", id=str(id_))
