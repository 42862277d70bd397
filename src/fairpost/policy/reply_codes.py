"""The meanings of SMTP, Google and Microsoft codes in servers' replies, as tables for `replies`."""

from collections.abc import Iterator

from fairpost.policy.reply_findings import (
    BLOCKED,
    BUSY,
    CONTENT,
    FLOODED,
    FORBIDDEN,
    FORMAT,
    FULL,
    GONE,
    LOGIN,
    LOOP,
    MALFORMED,
    NO_DOMAIN,
    NO_TLS,
    PERHAPS_GONE,
    QUOTA,
    RELAY,
    SENDER,
    TOO_BIG,
    TOO_FAST,
    TOO_MANY,
    UNPROVEN,
    UNREACHABLE,
    Finding,
)

# By the codes alone. 521 is the server's complete answer (RFC 7504), regardless of the enhanced code sent with it.
BY_CODE: dict[int, Finding] = {
    521: BLOCKED,
    525: LOGIN,
    530: LOGIN,
    534: LOGIN,
    535: LOGIN,
    538: LOGIN,
    556: NO_DOMAIN,
}


def _codes(rows: tuple[tuple[str, Finding], ...]) -> dict[str, Finding]:
    """Return a separate entry for each code. If two rows have the same code, the first one applies."""
    found: dict[str, Finding] = {}
    for codes, finding in rows:
        for code in _spelled_out(codes):
            found.setdefault(code, finding)
    return found


def _spelled_out(codes: str) -> Iterator[str]:
    for code in codes.split():
        kind, subject, details = code.split(".")
        first, _, last = details.partition("-")
        for detail in range(int(first), int(last or first) + 1):
            yield from (f"{k}.{subject}.{detail}" for k in ("45" if kind == "x" else kind))


# By enhanced status code: RFC 3463, RFC 7372, the IANA registry, and additions by Google and Microsoft.
# A code that is missing here (x.7.1, x.2.0, x.3.0, x.5.0…) is not specific enough on its own.
BY_ENHANCED: dict[str, Finding] = _codes(
    (
        ("x.1.0", PERHAPS_GONE),
        ("x.1.1 x.1.4 x.1.6 x.1.10", GONE),  # 5.1.10 at Microsoft: not in the directory; else: domain without mail
        ("x.1.2", NO_DOMAIN),
        ("x.1.3", MALFORMED),
        ("x.1.7 x.1.8", SENDER),
        ("x.1.20", FORMAT),  # Microsoft: several From addresses
        ("x.1.90", QUOTA),  # Microsoft: recipients per day
        ("5.1.350-351", GONE),  # Microsoft: unknown at a later hop
        ("x.2.1", GONE),
        ("x.2.2", FULL),
        ("x.2.3", TOO_BIG),
        ("x.2.121-122", FLOODED),  # Microsoft: messages per hour to this recipient
        ("5.3.1", BUSY),  # the whole system is full, which is temporary
        ("x.3.3", FORMAT),
        ("x.3.4", TOO_BIG),
        ("5.3.5 5.4.6 5.4.14", LOOP),
        ("5.4.4 5.4.310", NO_DOMAIN),
        ("5.4.7 5.4.300-319", UNREACHABLE),  # a later hop kept trying until its time limit was reached
        ("5.4.5", QUOTA),  # Google; the RFC means a congested network, as 4.4.5 still does
        ("x.5.3", TOO_MANY),
        ("x.6.0-20", FORMAT),
        ("x.7.2", BLOCKED),
        ("x.7.3 x.7.8 x.7.12 x.7.57 x.7.139", LOGIN),
        ("x.7.13-14", FORBIDDEN),
        ("x.7.5-7", FORMAT),  # the message's signatures and encryption
        ("x.7.9", BLOCKED),  # outside a login, only Yahoo uses this code: "policy reasons"
        ("x.7.10", NO_TLS),
        ("x.7.16", TOO_BIG),
        ("x.7.17-18", GONE),  # RFC 7293: the mailbox or the domain has a new owner
        ("x.7.20-27 x.7.29-32 x.7.40", UNPROVEN),
        ("x.7.28", TOO_FAST),
        ("x.7.60", SENDER),
        ("x.7.64", RELAY),
        ("x.7.100-136", BLOCKED),  # Microsoft: the recipient accepts mail only from some senders
        ("x.7.232-233", QUOTA),
        ("x.7.504-505", GONE),
        ("x.7.509 x.7.515", UNPROVEN),
        ("x.7.512", FORMAT),
        ("5.7.520", CONTENT),
        ("4.7.500-699", TOO_FAST),
        ("5.7.500-750", BLOCKED),
    )
)

# By Google's reason, in lower case: from the API and, with underscores, from the token endpoint.
BY_REASON: dict[str, Finding] = {
    "autherror": LOGIN,
    "invalidcredentials": LOGIN,
    "unauthorized": LOGIN,
    "invalid_grant": LOGIN,
    "invalid_client": LOGIN,
    "invalid_request": LOGIN,
    "unauthorized_client": FORBIDDEN,
    "access_denied": FORBIDDEN,
    "admin_policy_enforced": FORBIDDEN,
    "invalid_scope": FORBIDDEN,
    "accessnotconfigured": FORBIDDEN,
    "delegationdenied": FORBIDDEN,
    "domainpolicy": FORBIDDEN,
    "failedprecondition": FORBIDDEN,  # the mailbox does not have Gmail, or the key does not act for a mailbox
    "forbidden": FORBIDDEN,
    "insufficientpermissions": FORBIDDEN,
    "dailylimitexceeded": QUOTA,
    "limitexceeded": QUOTA,
    "quotaexceeded": QUOTA,
    "ratelimitexceeded": QUOTA,
    "userratelimitexceeded": QUOTA,
    "resourceexhausted": QUOTA,
    "backenderror": BUSY,
    "internalerror": BUSY,
    "server_error": BUSY,
    "temporarily_unavailable": BUSY,
    "invalidargument": FORMAT,
    "parseerror": FORMAT,
    "uploadtoolarge": TOO_BIG,
}

# By the status name, in lower case: used by Google if it gives no reason.
BY_STATUS_NAME: dict[str, Finding] = {
    "unauthenticated": LOGIN,
    "permission_denied": FORBIDDEN,
    "failed_precondition": FORBIDDEN,
    "resource_exhausted": QUOTA,
    "invalid_argument": FORMAT,
    "out_of_range": FORMAT,
    "unavailable": BUSY,
    "deadline_exceeded": BUSY,
    "internal": BUSY,
    "aborted": BUSY,
    "cancelled": BUSY,
}

# By the code in the error body of Microsoft Graph, in lower case.
BY_GRAPH_CODE: dict[str, Finding] = {
    "invalidauthenticationtoken": LOGIN,
    "unauthenticated": LOGIN,
    "unauthorized": LOGIN,
    "authenticationerror": LOGIN,
    "tokenexpired": LOGIN,
    "tokennotfound": LOGIN,
    "errorinvalidtoken": LOGIN,
    "interaction_required": LOGIN,
    "login_required": LOGIN,
    "consent_required": FORBIDDEN,
    "accessdenied": FORBIDDEN,
    "authorization_requestdenied": FORBIDDEN,
    "authorization_identitynotfound": FORBIDDEN,
    "erroraccessdenied": FORBIDDEN,
    "erroraccountsuspend": FORBIDDEN,
    "erroraccountsuspended": FORBIDDEN,
    "erroraccountsuspendshowtierupgrade": FORBIDDEN,
    "errorinvaliduser": FORBIDDEN,
    "errormessagesubmissionblocked": FORBIDDEN,
    "errormissingemailaddress": FORBIDDEN,
    "errornonexistentmailbox": FORBIDDEN,
    "forbidden": FORBIDDEN,
    "mailboxnotenabledforrestapi": FORBIDDEN,
    "mailboxnotsupportedforrestapi": FORBIDDEN,
    "orgnotfound": FORBIDDEN,
    "request_resourcenotfound": FORBIDDEN,
    "resourcenotfound": FORBIDDEN,
    "errorsendasdenied": SENDER,
    "errorsendonbehalfdenied": SENDER,
    "activitylimitreached": QUOTA,
    "applicationthrottled": QUOTA,
    "commandconcurrencylimitreached": QUOTA,
    "errorexceededconnectioncount": QUOTA,
    "errorexceededmessagelimit": QUOTA,
    "errorexceededrecipientlimit": QUOTA,
    "errorquotaexceeded": QUOTA,  # the account's own mailbox is full: nothing can be saved in it
    "errorsubmissionquotaexceeded": QUOTA,
    "mailboxconcurrency": QUOTA,
    "quotalimitreached": QUOTA,
    "toomanyrequests": QUOTA,
    "badgateway": BUSY,
    "errorbatchprocessingstopped": BUSY,
    "errorconnectionfailed": BUSY,
    "errorinsufficientresources": BUSY,
    "errorinternalservererror": BUSY,
    "errorinternalservertransienterror": BUSY,
    "errormailboxfailover": BUSY,
    "errormailboxmoveinprogress": BUSY,
    "errormailboxstoreunavailable": BUSY,
    "errorserverbusy": BUSY,
    "errortimeoutexpired": BUSY,
    "gatewaytimeout": BUSY,
    "generalexception": BUSY,
    "internalservererror": BUSY,
    "servicenotavailable": BUSY,
    "serviceunavailable": BUSY,
    "timeout": BUSY,
    "unknownerror": BUSY,
    "badrequest": FORMAT,
    "errorinvalidargument": FORMAT,
    "errorinvalidproperty": FORMAT,
    "errorinvalidrecipients": FORMAT,  # the reply does not say which recipients are invalid
    "errorinvalidrequest": FORMAT,
    "errormimecontentinvalid": FORMAT,
    "errormimecontentinvalidbase64string": FORMAT,
    "errorschemavalidation": FORMAT,
    "invalidrequest": FORMAT,
    "requestbodyread": FORMAT,
    "errorattachmentsizelimitexceeded": TOO_BIG,
    "errormessagesizeexceeded": TOO_BIG,
    "requestentitytoolarge": TOO_BIG,
}

# By the HTTP status alone. A missing status has no meaning, and 5xx is the server's own problem.
BY_STATUS: dict[int, Finding] = {
    401: LOGIN,
    403: FORBIDDEN,
    402: FORBIDDEN,
    408: BUSY,
    409: BUSY,
    413: TOO_BIG,
    423: BUSY,
    425: BUSY,
    429: QUOTA,
}
