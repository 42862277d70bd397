"""Possible answers of a server to an e-mail, as a transport reports them."""

from fairpost.model.report import Reached, Reply, Report, Step

LATER = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(451, "4.7.1 greylisted, try again"))
NO_SUCH_USER = Report(reached=Reached.REPLIED, step=Step.RCPT, reply=Reply(550, "5.1.1 no such user"))
BAD_MESSAGE = Report(reached=Reached.REPLIED, step=Step.DOT, reply=Reply(554, "5.6.0 malformed message"))
LOST = Report(reached=Reached.AFTER_DOT, error="connection lost after the dot")
CUT = Report(reached=Reached.BEFORE_DOT, error="connection lost before the dot")
UNREACHABLE = Report(reached=Reached.UNTOUCHED, step=Step.CONNECT, error="connection refused")
REVOKED = Report(reached=Reached.REPLIED, step=Step.AUTH, reply=Reply(535, "5.7.8 authorisation revoked"))
