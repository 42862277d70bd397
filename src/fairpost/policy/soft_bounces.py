"""Count soft bounces. An e-mail counts only once, after its last attempt, because a mailbox that is full for an
afternoon refuses every attempt although its address is still good. The database decides after how many soft bounces an
address is suppressed, because it counts them for all accounts together.
"""

from fairpost.model.email import Outgoing
from fairpost.model.report import Reached, Report, Step
from fairpost.model.verdict import Bounced, Failed, Sent, Verdict
from fairpost.policy.replies import ReplyClass, Scope, meaning


def soft_bounced(email: Outgoing, verdict: Verdict, report: Report) -> tuple[str, ...]:
    """Return the recipients whose mailbox did not accept the e-mail and who will no longer receive it."""
    if report.reached is not Reached.REPLIED or not isinstance(verdict, Sent | Failed | Bounced):
        return ()
    return tuple(address for address in email.envelope if _is_soft(email, report, address))


def _is_soft(email: Outgoing, report: Report, address: str) -> bool:
    """Return whether this was a soft bounce, judging by the recipient's own refusal.

    A reply to the whole message is about a mailbox only if there is a single recipient.
    """
    own = report.recipients.get(address)
    if own is not None and not 200 <= own.code < 300:
        found = meaning(own, phase=Step.RCPT, channel=report.channel)
    elif report.reply is not None and len(email.envelope) == 1:
        found = meaning(report.reply, phase=report.step, channel=report.channel)
    else:
        return False
    return found.class_ is ReplyClass.SOFT_BOUNCE and found.scope is Scope.RECIPIENT
