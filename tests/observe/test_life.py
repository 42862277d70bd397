"""The timeline of an e-mail: its moments in order, ending with its current state."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpost.compose.message import message_id_of
from fairpost.model.account import Limits
from fairpost.model.ids import EmailId
from fairpost.model.reason import Reason
from fairpost.model.report import Reply
from fairpost.model.states import FINAL, DoubtPolicy, EmailClass, State
from fairpost.observe.emails import Attempt, ShownEmail, show_email
from fairpost.observe.life import POLICIES, Background, Decision, Life, life_of, tell
from fairpost.policy.conditions import Condition, Tone
from fairpost.policy.facts import Stop
from fairpost.policy.replies import meaning
from fairpost.store.store import Store
from fairpost.transports.smtp.settings import SmtpSettings
from tests.api.neighbours import A, Neighbours, neighbourhood
from tests.databases import Databases

START = datetime(2030, 1, 1, 9, tzinfo=UTC)
NOW = START + timedelta(days=1)

EMAIL = ShownEmail(
    **dict.fromkeys(("reason", "account", "expires_at", "claimed_at", "begun_at", "finished_at", "idempotency_key")),
    **dict.fromkeys(("message_id", "thread_id", "sender", "subject", "text", "html", "reply_to", "type")),
    id=EmailId(4711),
    state=State.READY,
    workspace="acme",
    domain="",
    user="ann",
    stream="",
    email_class=EmailClass.URGENT,
    route="default",
    created_at=START,
    due_at=START,
    attempts=0,
    attempts_max=5,
    on_doubt=DoubtPolicy.RESEND,
    recipients=(),
    tags={},
    metadata={},
    remaining=(),
    fields={},
    content_id=4711,
    has_places=False,
    headers={},
    attachments=(),
    log=(),
)

seconds = st.integers(0, 3 * 86_400)


@st.composite
def emails(draw: st.DrawFn) -> ShownEmail:
    """Yields timelines as the database can have them: attempts in sequence, followed by the state's own moments."""
    at = START
    log = []
    for n in range(1, draw(st.integers(0, 3)) + 1):
        begun_at = at = at + timedelta(seconds=draw(seconds))
        ended_at = at = at + timedelta(seconds=draw(seconds))
        outcome = draw(st.sampled_from(["sent", "retry", "failed", "bounced", "in_doubt"]))
        code, reply = draw(
            st.sampled_from([(None, None), (250, "ok"), (550, "5.1.1 no"), (429, "rateLimitExceeded: x")])
        )
        log.append(
            Attempt(
                n=n,
                account="sales",
                begun_at=begun_at,
                ended_at=ended_at,
                outcome=outcome,
                code=code,
                reply=reply,
                response_ms=1,
                recipients=draw(st.sampled_from([None, {"a@b.test": {"code": 550, "text": "no"}}])),
            )
        )
    state = draw(st.sampled_from(State))
    later = [at := at + timedelta(seconds=draw(seconds)) for _ in range(3)]
    is_claimed = state in (State.CLAIMED, State.SENDING, State.IN_DOUBT)
    is_begun = state in (State.SENDING, State.IN_DOUBT)
    due_at: datetime | None = START + timedelta(seconds=draw(seconds) - 86_400)
    if state is State.SCHEDULED:
        due_at = draw(st.sampled_from([None, NOW + timedelta(days=30)]))
    return replace(
        EMAIL,
        state=state,
        reason=draw(st.sampled_from([None, Reason("email.cancelled", note="because")])),
        account="sales" if is_claimed or log else None,
        due_at=due_at,
        claimed_at=later[0] if is_claimed else None,
        begun_at=later[1] if is_begun else None,
        finished_at=later[2] if state in FINAL else None,
        attempts=len(log) + is_begun,
        log=tuple(log),
    )


decisions = st.lists(
    st.builds(
        Decision,
        kind=st.sampled_from(["resolved", "retried"]),
        at=seconds.map(lambda s: START + timedelta(seconds=s)),
        decision=st.sampled_from([None, "resend"]),
        by=st.sampled_from([None, "policy"]),
    ),
    max_size=2,
)


def in_order(life: Life) -> bool:
    moments = [moment.at for moment in life.moments if moment.at is not None]
    return moments == sorted(moments) and all(moment.at is not None for moment in life.moments[:-1])


@given(email=emails(), decided=decisions, is_parked=st.booleans())
def test_moments_are_in_order_and_the_last_one_is_the_state(
    email: ShownEmail, decided: list[Decision], is_parked: bool
) -> None:
    life = tell(email, Background(decisions=tuple(decided), is_parked=is_parked))
    assert life.moments[0].kind == "accepted"
    assert life.moments[-1].kind == email.state
    assert in_order(life)
    begun = [moment.attempt for moment in life.moments if moment.kind in ("begun", "sending")]
    assert begun == sorted(range(1, email.attempts + 1)), "each attempt is listed once"
    assert bool(life.stands_in_the_way) == (email.state in (State.SCHEDULED, State.READY))
    assert (life.doubt is not None) == (email.state is State.IN_DOUBT)
    assert all(moment.words for moment in life.moments)


@pytest.fixture(scope="module")
def settled(databases: Databases) -> Iterator[tuple[str, Neighbours]]:
    """One world for all tests here, because none of them reads what another has changed."""
    with neighbourhood(databases) as it:
        yield it


@pytest.fixture
def neighbours(settled: tuple[str, Neighbours]) -> Neighbours:
    return settled[1]


@pytest.fixture
async def full(settled: tuple[str, Neighbours]) -> AsyncIterator[Store]:
    async with Store.open(settled[0]) as store:
        yield store


async def test_every_email_of_a_full_workspace_has_a_life_that_ends_in_its_state(
    full: Store, neighbours: Neighbours
) -> None:
    ids = await full.public_ids()
    states = set()
    for id_ in [*neighbours.a.emails.values(), *neighbours.b.emails.values()]:
        email = await show_email(full, EmailId(id_))
        life = await life_of(full, email, ids=ids)
        assert life.moments[-1].kind == email.state
        assert in_order(life), life
        as_tenant = full.of_tenant(email.workspace)
        assert (await life_of(as_tenant, await show_email(as_tenant, EmailId(id_)), ids=ids)).moments == life.moments
        states.add(email.state)
    assert states >= set(State) - {State.SUPPRESSED, State.READY}


async def test_a_campaigns_email_names_its_campaign_and_a_held_one_what_holds_it(
    full: Store, neighbours: Neighbours
) -> None:
    planned = await full.value(
        "SELECT q.id FROM fairpost.queue q WHERE q.campaign_id = $1 LIMIT 1", neighbours.a.campaigns["spring"]
    )
    life = await life_of(full, await show_email(full, planned), ids=await full.public_ids())
    for fact in ("step 1", "campaign spring"):
        assert fact in life.moments[0].words
    held = await life_of(
        full, await show_email(full, EmailId(neighbours.a.emails["held"])), ids=await full.public_ids()
    )
    assert [each.kind for each in held.stands_in_the_way] == ["due", "hold"]
    for fact in (f"user ann-{A}", f"held by {neighbours.a.secret}"):  # the person, and the reason as given
        assert fact in held.stands_in_the_way[1].words


async def test_a_doubt_shows_what_is_known_and_then_the_decision(full: Store, neighbours: Neighbours) -> None:
    id_ = EmailId(neighbours.a.emails["in_doubt"])
    email = await show_email(full, id_)
    doubt = (await life_of(full, email, ids=await full.public_ids())).doubt
    assert doubt is not None
    assert (doubt.attempt, doubt.begun_at) == (1, email.begun_at)
    assert [choice.decision for choice in doubt.choices] == ["sent", "resend", "failed"]
    (outgoing,) = await full.load([id_])
    assert message_id_of(outgoing, domain="x.test").startswith(doubt.message_id_begins)
    assert doubt.policy == POLICIES["hold"]
    await full.value(
        'UPDATE fairpost.queue SET evidence = \'{"draft": "d", "unknown": "it is gone"}\' WHERE id = $1', id_
    )
    asked = (await life_of(full, email, ids=await full.public_ids())).doubt
    assert asked is not None
    assert asked.asked.endswith(": it is gone")
    await full.resolve(id_, "resend", by="ann")
    life = await life_of(full, await show_email(full, id_), ids=await full.public_ids())
    assert [moment.kind for moment in life.moments] == ["accepted", "begun", "ended", "decided", "ready"]
    for fact in ("ann", "resend"):
        assert fact in life.moments[3].words


@pytest.mark.parametrize(
    ("on_doubt", "attempts", "evidence", "policy"),
    [
        (DoubtPolicy.RESEND, 1, None, "resend"),
        (DoubtPolicy.RESEND, 5, None, "exhausted"),
        (DoubtPolicy.HOLD, 1, None, "hold"),
        (DoubtPolicy.HOLD, 1, {"draft": "d"}, "ask"),
        (DoubtPolicy.RESEND, 1, {"draft": "d", "unknown": "gone"}, "resend"),
    ],
)
def test_a_policy_has_the_same_effect_as_in_the_engine(
    on_doubt: DoubtPolicy, attempts: int, evidence: dict[str, str] | None, policy: str
) -> None:
    email = replace(EMAIL, state=State.IN_DOUBT, on_doubt=on_doubt, attempts=attempts, begun_at=START, claimed_at=START)
    doubt = tell(email, Background(evidence=evidence)).doubt
    assert doubt is not None
    assert doubt.policy == POLICIES[policy]


def test_a_ready_email_shows_what_it_waits_for() -> None:
    assert [o.kind for o in tell(EMAIL, Background()).stands_in_the_way] == ["turn"]
    for code, kind in (("pool.empty", "account"), ("engine.none", "engine")):
        condition = Condition(reason=Reason(code, pool="default"), tone=Tone.FAULT)
        assert [o.kind for o in tell(EMAIL, Background(route=condition)).stands_in_the_way] == [kind]
    stop = Stop(workspace="acme", level="user", key="ann", until=None, reason=Reason("hold.by_hand", note="asked"))
    (held,) = tell(EMAIL, Background(stops=(stop,))).stands_in_the_way
    assert (held.kind, held.until) == ("hold", None)
    for fact in ("user ann", "asked"):
        assert fact in held.words


async def test_a_reply_is_reported_in_the_words_of_explain(full: Store, neighbours: Neighbours) -> None:
    id_ = neighbours.a.emails["bounced"]
    await full.value("UPDATE fairpost.attempts SET code = 550, reply = '5.1.1 User unknown' WHERE email_id = $1", id_)
    life = await life_of(full, await show_email(full, EmailId(id_)), ids=await full.public_ids())
    (ended,) = [moment for moment in life.moments if moment.kind == "ended"]
    assert ended.meaning == meaning(Reply(550, "5.1.1 User unknown")).why


async def test_with_an_account_that_may_send_only_an_engine_is_missing(store: Store) -> None:
    server = SmtpSettings(host="mail.test", port=587)
    await store.add_account("free", address="free@x.test", limits=Limits(delay_ms=0), transport=server)
    ((id_),) = [row["id"] for row in await store.enqueue_many([{"to": "a@b.test", "subject": "s", "text": "t"}])]
    waits = (
        await life_of(store, await show_email(store, EmailId(id_)), ids=await store.public_ids())
    ).stands_in_the_way
    assert [each.kind for each in waits] == ["engine"]
