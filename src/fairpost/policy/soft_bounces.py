"""Whose mailbox has taken nothing once more. An e-mail counts once, when it is given up: a mailbox that is full for an
afternoon refuses each of its attempts, and is a good address all the same. After how many an address is suppressed, the
database knows, for it counts for all accounts together.
"""

from fairpost.model.email import Outgoing
from fairpost.model.report import Reached, Report, Step
from fairpost.model.verdict import Bounced, Failed, Sent, Verdict
from fairpost.policy.replies import ReplyClass, Scope, meaning


def soft_bounced(email: Outgoing, verdict: Verdict, report: Report) -> tuple[str, ...]:
    """Those whose mailbox did not take it, and who will not get it any more."""
    if report.reached is not Reached.REPLIED or not isinstance(verdict, Sent | Failed | Bounced):
        return ()
    return tuple(address for address in email.envelope if _is_soft(email, report, address))


def _is_soft(email: Outgoing, report: Report, address: str) -> bool:
    """By the recipient's own refusal. What was said of the whole message is about a mailbox only where there is but one."""
    own = report.recipients.get(address)
    if own is not None and not 200 <= own.code < 300:
        found = meaning(own, phase=Step.RCPT, channel=report.channel)
    elif report.reply is not None and len(email.envelope) == 1:
        found = meaning(report.reply, phase=report.step, channel=report.channel)
    else:
        return False
    return found.class_ is ReplyClass.SOFT_BOUNCE and found.scope is Scope.RECIPIENT
