"""The classification of returned mail. The mails were written for these tests; test_labelled.py measures a labelled set
of real ones."""

from datetime import UTC, datetime

from fairpost.model.report import Step
from fairpost.returns.classify import Kind, Returned, classify
from fairpost.returns.mail import read_mail
from fairpost.returns.quotes import written
from fairpost.returns.replies_in_text import said_in
from tests.returns import corpus
from tests.returns.mails import ABSENCES, QUOTE, REPLIES, REQUESTS, complaint, mail, report

NOW = datetime(2026, 11, 18, tzinfo=UTC)


def found(raw: bytes) -> Returned:
    return classify(raw, now=NOW)


def test_one_report_does_not_suppress_an_address_that_may_be_alive() -> None:
    """The mailbox is disabled, or a server that knew the recipient refused after the content."""
    after_content = "550 User unknown (in reply to end of DATA command)"
    unconfirmed = [
        ("5.2.1", "550 5.2.1 The email account that you tried to reach is disabled"),
        ("5.2.1", "550 5.2.1 This mailbox is inactive"),
        ("5.0.0", "550 Mailbox has been deactivated"),
        ("5.5.0", "550 5.5.0 The recipient account is blocked"),
        ("5.0.0", "550 Das Postfach ist deaktiviert"),
        ("5.0.0", "550 La cuenta de usuario esta desactivada"),
        ("5.0.0", after_content),
    ]
    confirmed = [
        ("5.1.1", "550 5.1.1 User unknown (in reply to end of DATA command)"),
        ("5.0.0", "550 User unknown (in reply to RCPT TO command)"),
        ("5.2.1", "550 5.2.1 User unknown"),
        ("5.0.0", "550 This account was deleted"),
        ("5.0.0", "550 Mailbox disabled or user does not exist"),
        ("5.1.2", "550 5.1.2 Host unknown (in reply to end of DATA command)"),
    ]
    for is_confirmed, cases in ((True, confirmed), (False, unconfirmed)):
        for status, said in cases:
            (each,) = found(report(status, said)).recipients
            assert (each.suppress_recipient, each.is_confirmed) == (is_confirmed, is_confirmed), said


def test_sendmail_shows_replies_to_rcpt_below_data() -> None:
    refused = "550 5.7.1 <ann@people.example>: User unknown"
    shown = {">>> DATA\n<<< {}\n<<< 503 5.0.0 Need RCPT (recipient)": Step.RCPT, ">>> DATA\n<<< {}\n": Step.DOT}
    for text, step in shown.items():
        assert said_in(text.format(refused)).step is step


def test_a_report_says_what_a_reply_would_have_said() -> None:
    cases = {
        ("5.1.1", "550 5.1.1 User unknown"): ("hard_bounce", True, False),
        ("5.2.2", "552 5.2.2 Mailbox full"): ("soft_bounce", False, False),
        ("4.2.2", "452 4.2.2 Mailbox full"): ("soft_bounce", False, True),
        ("5.1.1", "550 5.1.1 Your IP 192.0.2.1 is blacklisted"): ("policy_sender", False, False),
        ("5.7.1", "550 5.7.1 Message rejected as spam"): ("message", False, False),
    }
    wrong = []
    for (status, said), wanted in cases.items():
        result = found(report(status, said))
        told = [(each.class_, each.suppress_recipient, each.retry) for each in result.recipients]
        if result.kind is not Kind.REPORT or told != [wanted]:
            wrong.append(f"{said}: {result.kind} {told}")
    assert not wrong


def test_replies_learned_from_reports() -> None:
    replies = {
        "550 Host does not accept mail": True,
        "550 <ann@people.example>: Recipient address rejected. (in reply to RCPT TO command)": True,
        "550 The group may not exist, or you may not have permission to post. No such user. Google Groups": False,
        '550 procmail: Couldn\'t create "/var/spool/mail/ann" id: No such user': False,
    }
    assert {said: found(report("5.0.0", said)).recipients[0].suppress_recipient for said in replies} == replies


def test_a_report_of_delay_or_delivery_suppresses_no_address() -> None:
    delayed, delivered = (
        found(report("4.1.1", "450 4.1.1 User unknown", action="delayed")),
        found(report("2.0.0", "250 Ok", action="delivered")),
    )
    assert [(each.retry, each.suppress_recipient) for each in delayed.recipients] == [(True, False)]
    assert [(each.class_, each.suppress_recipient) for each in delivered.recipients] == [("accepted", False)]


def test_the_returned_message_is_known_by_its_id() -> None:
    returned = found(report("5.1.1", "550 5.1.1 User unknown")).returned
    assert returned is not None
    assert returned["message-id"] == "<one@sender.example>"


NOTICES = {
    "qmail": (
        "Hi. This is the qmail-send program at relay.example.\nI'm afraid I wasn't able to deliver your message to the following addresses.\n\n"
        "<ann@people.example>:\n192.0.2.1 does not like recipient.\nRemote host said: 550 5.1.1 No such user\nGiving up on 192.0.2.1.\n\n"
        "--- Below this line is a copy of the message.\n\nReturn-Path: <ben@sender.example>\nTo: ann@people.example\n"
    ),
    "exim": (
        "This message was created automatically by mail delivery software.\n\nA message that you sent could not be delivered to one or more of its\n"
        "recipients. This is a permanent error. The following address(es) failed:\n\n  ann@people.example\n    host mx.people.example [192.0.2.1]\n"
        "    SMTP error from remote mail server after RCPT TO:<ann@people.example>:\n    550 5.1.1 User unknown\n\n"
        "------ This is a copy of the message, including all the headers. ------\n\nTo: ann@people.example\n"
    ),
    "sendmail": (
        "   ----- The following addresses had permanent fatal errors -----\n<ann@people.example>\n\n   ----- Transcript of session follows -----\n"
        "... while talking to mx.people.example.:\n>>> RCPT To:<ann@people.example>\n<<< 550 5.1.1 User unknown\n550 <ann@people.example>... User unknown\n"
        "\n   ----- Unsent message follows -----\nReceived: from localhost\nTo: ann@people.example\n"
    ),
    "fields in the text": (
        "Your message could not be delivered.\n\nFinal-Recipient: rfc822; ann@people.example\nAction: failed\nStatus: 5.1.1\n"
        "Diagnostic-Code: smtp; 550 5.1.1 User\n unknown\n"
    ),
    "a sentence": "There was an error delivering your mail to <ann@people.example>.\n\nmx.people.example did not like our RCPT TO:\n550 5.1.1 User unknown\n",
    "domino, without a telling subject": (
        "------- Failure Reasons  --------\n\nUser not listed in public Name & Address Book\nann@people.example\n\n\n"
        "------- Returned Message --------\n\nReceived: from relay.example\nTo: ann@people.example\n"
    ),
    "the reply above the address": (
        "Your message could not be delivered because of\n\n550 5.1.1 User unknown\n\nThe following recipients were affected:\n   ann@people.example\n\n"
        "Additional Information\nOriginal Sender: <ben@sender.example>\nSender-MTA: <192.0.2.1>\n"
    ),
    "the original in german": (
        'Die folgende Adresse ist fehlgeschlagen:\n\n"ann@people.example":\nDomain existiert nicht. Bitte überprüfen Sie die Empfängeradresse.\n\n'
        "--- Der Header der ursprünglichen Nachricht folgt. ---\n\nReceived: from relay.example\n"
    ),
    "russian": "Письмо не было доставлено.\n\nann@people.example\nПользователь не найден\n",
    "german": "Ihre Nachricht konnte nicht zugestellt werden.\n\nEmpfänger: ann@people.example\nGrund: 550 5.1.1 Benutzer unbekannt\n",
}


def test_reports_in_words_name_the_recipient_and_the_reply() -> None:
    wrong = []
    for name, text in NOTICES.items():
        subject = "*" if name in ("domino, without a telling subject", "russian") else "failure notice"
        raw = mail(text, subject=subject, sender="MAILER-DAEMON@relay.example", answers=False)
        result = found(raw)
        told = [(each.address, each.class_, each.retry) for each in result.recipients]
        if result.kind is not Kind.REPORT or told != [("ann@people.example", "hard_bounce", False)]:
            wrong.append(f"{name}: {result.kind} {told}")
    assert not wrong


FROM_EXCHANGE = {
    "Unzustellbar: Angebot": "Fehler bei der Nachrichtenzustellung an folgende Empfänger oder Gruppen:\n\n{}\nDie eingegebene E-Mail-Adresse konnte nicht gefunden werden.",
    "Non remis : Offre": "Échec de la remise pour ces destinataires ou groupes :\n\n{}\nL'adresse de courrier que vous avez entrée est introuvable.",
    "No se puede entregar: Oferta": "Error al entregar el mensaje a los siguientes destinatarios o grupos:\n\n{}\nLa dirección de correo electrónico que ha especificado no se encontró.",
    "Non recapitabile: Offerta": "Impossibile recapitare il messaggio ai seguenti destinatari o gruppi:\n\n{}\nL'indirizzo di posta elettronica immesso non è stato trovato.",
    "Não é possível entregar: Oferta": "Falha na entrega a estes destinatários ou grupos:\n\n{}\nO endereço de email digitado não pôde ser encontrado.",
    "Onbestelbaar: Aanbod": "Het bezorgen van uw bericht aan de volgende geadresseerden of groepen is mislukt:\n\n{}\nHet ingevoerde e-mailadres kan niet worden gevonden.",
    "Nie można dostarczyć: Oferta": "Dostarczenie wiadomości do następujących adresatów lub grup nie powiodło się:\n\n{}\nNie znaleziono wprowadzonego adresu e-mail.",
    "Det gick inte att leverera: Test": "Leveransen misslyckades till följande mottagare eller grupper:\n\n{}\nDet gick inte att hitta e-postadressen du angav.",
    "Teslim Edilemedi: test": "Bu alıcılara veya gruplara teslimat başarısız oldu:\n\n{}\nGirdiğiniz e-posta adresi bulunamadı.",
    "Не удалось доставить: тест": "Сбой доставки следующим получателям или группам:\n\n{}\nУказанный вами адрес электронной почты не найден.",
    "配信不能: テスト": "次の受信者またはグループへの配信に失敗しました:\n\n{}\n入力された電子メール アドレスが見つかりませんでした。",
    "未送达: 测试": "传递到以下收件人或组时失败:\n\n{}\n找不到您输入的电子邮件地址。",
    "系统退信": "抱歉，您的邮件被退回来了\n收件人{}不存在，邮件无法送达。",
    "배달되지 않음: 테스트": "다음 받는 사람 {}에게 배달하지 못했습니다. 입력한 전자 메일 주소를 찾을 수 없습니다.",
}


def test_reports_in_many_languages_name_the_recipient_and_are_no_auto_replies() -> None:
    wrong = []
    for subject, text in FROM_EXCHANGE.items():
        sender = "Microsoft Outlook <MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@relay.example>"
        raw = mail(
            text.format("ann@people.example"),
            subject=subject,
            sender=sender,
            headers={"Auto-Submitted": "auto-replied"},
            answers=False,
        )
        result = found(raw)
        told = [(each.address, each.class_, each.retry) for each in result.recipients]
        if result.kind is not Kind.REPORT or told != [("ann@people.example", "hard_bounce", False)]:
            wrong.append(f"{subject}: {result.kind} {told}")
    assert not wrong


def test_qmail_and_google_name_the_step_in_words_of_their_own() -> None:
    steps = {
        "192.0.2.1 does not like recipient.\nRemote host said: 550 User unknown": Step.RCPT,
        "192.0.2.1 failed after I sent the message.\nRemote host said: 550 User unknown": Step.DOT,
        "Connected to 192.0.2.1 but sender was rejected.\nRemote host said: 550 No": Step.MAIL,
        "Connected to 192.0.2.1 but greeting failed.\nRemote host said: 554 No": Step.GREETING,
        "The error that the other server returned was: 554 554 No (state 18).": Step.DOT,
    }
    assert {text: said_in(text).step for text in steps} == steps


def test_internationalised_reports_name_addresses_in_every_script() -> None:
    wrong = []
    for written_, address in (
        ("utf-8; иван@почта.example", "иван@почта.example"),
        (r"utf-8; \x{438}\x{432}@people.example", "ив@people.example"),
        (r"utf-8; \x{d800}\x{ffffff}a@people.example", "a@people.example"),
        ("utf-8; 小明@例子.公司", "小明@例子.公司"),
    ):
        raw = report("5.1.1", "550 5.1.1 User unknown").decode()
        raw = raw.replace("Original-Recipient: rfc822;ann@people.example\n", "")
        raw = raw.replace("Final-Recipient: rfc822; ann@people.example", f"Final-Recipient: {written_}")
        raw = raw.replace("message/delivery-status", "message/global-delivery-status")
        told = [each.address for each in found(raw.encode()).recipients]
        if told != [address]:
            wrong.append(f"{written_}: {told}")
    assert not wrong


def test_malformed_delivery_status_is_read_anyway() -> None:
    good = report("5.1.1", "550 5.1.1 User unknown").decode()
    variants = {
        "no blank line between the groups": good.replace("relay.example\n\nFinal", "relay.example\nFinal"),
        "a blank line within a group": good.replace("Action: failed\n", "\nAction: failed\n"),
        "the part is called text": good.replace("message/delivery-status", "text/plain"),
        "no closing boundary": good.replace("--b1--", ""),
        "carriage returns alone": good.replace("\n", "\r"),
        "the boundary is not named": good.replace('; boundary="b1"', "").replace("--b1", "--a-boundary-of-some-length"),
        "no diagnostic": good.replace("Diagnostic-Code: smtp; 550 5.1.1 User unknown\n", ""),
        "brackets around the address": good.replace("rfc822; ann@people.example", "rfc822; <ann@people.example>"),
        "no kind before the address": good.replace("rfc822; ann@people.example", "ann@people.example"),
        "a comment after the status": good.replace("Status: 5.1.1", "Status: 5.1.1 (no such user)"),
        "lower case": good.replace("Final-Recipient", "final-recipient").replace("Status:", "status:"),
    }
    wrong = []
    for name, text in variants.items():
        told = [(each.address, each.class_, each.status) for each in found(text.encode()).recipients]
        if told != [("ann@people.example", "hard_bounce", "5.1.1")]:
            wrong.append(f"{name}: {told}")
    assert not wrong


def test_a_complaint_suppresses_and_other_feedback_does_not() -> None:
    told = {kind: found(complaint(kind)) for kind in ("abuse", "fraud", "auth-failure", "not-spam")}
    assert {kind: (each.kind, [r.suppress_recipient for r in each.recipients]) for kind, each in told.items()} == {
        "abuse": (Kind.COMPLAINT, [True]),
        "fraud": (Kind.COMPLAINT, [True]),
        "auth-failure": (Kind.COMPLAINT, [False]),
        "not-spam": (Kind.COMPLAINT, [False]),
    }


def test_a_complaint_without_its_recipient_is_found_in_the_returned_header() -> None:
    bare = complaint().replace(b"Original-Rcpt-To: <ann@people.example>\n", b"")
    received = bare.replace(b"To: ann@people.example\n", b"Received: from a by b for <ann@people.example>; Thu\n")
    assert [[each.address for each in found(raw).recipients] for raw in (bare, received)] == [
        ["ann@people.example"]
    ] * 2


def test_auto_replies_in_eight_languages_and_when_an_absence_ends() -> None:
    wrong = []
    for subject, text, back_on in ABSENCES:
        for headers in ({"Auto-Submitted": "auto-replied"}, {"Return-Path": "<>"}):
            result = found(mail(f"{text}\n\n{QUOTE}", subject=subject, headers=headers))
            told = result.back_on.isoformat() if result.back_on else None
            if (result.kind, told) != (Kind.AUTO_REPLY, back_on):
                wrong.append(f"{subject!r} {text!r} {headers}: {result.kind} {told}, not {back_on}")
    assert not wrong


def test_the_corpus_of_auto_replies_is_recognised_by_headers_or_words_alone() -> None:
    wrong = []
    for language, entries in corpus.AUTO_REPLIES.items():
        assert len(entries) >= 10
        for subject, text, back_on in entries:
            for headers in ({"Auto-Submitted": "auto-replied"}, {"Return-Path": "<>"}, {}):
                result = found(mail(f"{text}\n\n{QUOTE}", subject=subject, headers=headers))
                told = result.back_on.isoformat() if result.back_on else None
                if (result.kind, told) != (Kind.AUTO_REPLY, back_on):
                    wrong.append(f"{language} {subject!r} {text!r} {headers}: {result.kind} {told}, not {back_on}")
    assert not wrong


def test_replies_of_people_are_replies() -> None:
    wrong = []
    for text in (*REPLIES, *(each for entries in corpus.REPLIES.values() for each in entries)):
        if (result := found(mail(f"{text}\n\n{QUOTE}"))).kind is not Kind.REPLY:
            wrong.append(f"{text}: {result.kind}")
    assert not wrong


def test_programs_are_known_by_what_only_they_write() -> None:
    cases = {
        "a null return path": ({"Return-Path": "<>"}, True, Kind.AUTO_REPLY),
        "a rule of the mailbox": ({"X-MS-Exchange-Inbox-Rules-Loop": "ann@people.example"}, True, Kind.AUTO_REPLY),
        "a person's mail, forwarded by a rule": (
            {"X-MS-Exchange-Inbox-Rules-Loop": "info@sender.example"},
            True,
            Kind.REPLY,
        ),
        "generated, and to us": ({"Auto-Submitted": "auto-generated"}, False, Kind.AUTO_REPLY),
        "generated, to many": (
            {"Auto-Submitted": "auto-generated", "List-Id": "<news.example>"},
            False,
            Kind.OTHER,
        ),
        "by a person with a help desk": ({"X-Auto-Response-Suppress": "All"}, True, Kind.REPLY),
        "in bulk, with nothing else": ({"Precedence": "bulk"}, True, Kind.REPLY),
    }
    wrong = []
    for name, (headers, answers, kind) in cases.items():
        result = found(mail("Danke.", subject="Hello", headers=headers, answers=answers))
        if result.kind is not kind:
            wrong.append(f"{name}: {result.kind}")
    assert not wrong
    notification = mail(
        "x", sender="no-reply@shop.example", headers={"Auto-Submitted": "auto-generated"}, answers=False
    )
    assert found(notification.replace(b"Re: An offer", b"Your order")).kind is Kind.OTHER


def test_requests_to_unsubscribe_are_no_mere_replies() -> None:
    wrong = []
    for text in REQUESTS:
        result = found(mail(f"{text}\n\n{QUOTE}"))
        if result.kind is not Kind.UNSUBSCRIBE or [each.suppress_recipient for each in result.recipients] != [True]:
            wrong.append(f"{text}: {result.kind}")
    assert not wrong


def test_the_header_of_our_own_mail_leads_to_an_unsubscribe_request() -> None:
    for subject, token in (("unsubscribe", ""), ("Unsubscribe em_x-1", "em_x-1")):
        for text in ("", "Sent automatically by a mail program.", "word " * 500):
            result = found(mail(text, subject=subject, answers=False))
            assert (result.kind, result.token) == (Kind.UNSUBSCRIBE, token)
    for subject in ("unsubscribe from what?", "Unsubscribed", "unsubscribe a b"):
        assert found(mail("We like your news.", subject=subject, answers=False)).token == ""


def test_other_mail_is_other_mail() -> None:
    newsletter = mail(
        "Our news of the month.", subject="News", answers=False, headers={"List-Id": "<news.shop.example>"}
    )
    receipt = mail("Your mail was displayed.", subject="Read: An offer").replace(
        b"Content-Type: text/plain", b"Content-Type: multipart/report; report-type=disposition-notification"
    )
    assert [found(newsletter).kind, found(receipt).kind, found(b"").kind, found(b"\0\xff\n\n\n").kind] == [
        Kind.OTHER
    ] * 4


def test_a_person_who_quotes_a_report_writes_a_reply() -> None:
    quoted = "\n".join(f"> {line}" for line in report("5.1.1", "550 5.1.1 User unknown").decode().splitlines())
    assert found(mail(f"I got this back, please fix it.\n\n{quoted}")).kind is Kind.REPLY


def test_a_persons_text_is_separated_from_quotes() -> None:
    from_microsoft = "Yes, let us talk.\n\nAnn\n\n________________________________\nFrom: Ben <ben@sender.example>\nSent: Monday\n\nHello"
    broken = "Ja.\n\nAm Mo., 16. Nov. 2026 um 09:00 Uhr schrieb Ben\n<ben@sender.example>:\n\n> Hallo"
    assert [written(from_microsoft), written(broken), written(f"Yes.\n\n{QUOTE}"), written("> all\n> quoted")] == [
        "Yes, let us talk.\n\nAnn",
        "Ja.",
        "Yes.",
        "",
    ]


def test_encodings_are_taken_as_they_come() -> None:
    bodies = {
        b"Content-Transfer-Encoding: base64\n\nw6Rubg": "änn",
        b"Content-Type: text/plain; charset=nonsense\n\n\xe4nn": "änn",
        b"Content-Type: text/plain; charset=punycode\n\nann": "ann",
        b"Content-Transfer-Encoding: quoted-printable\n\n=C3=A4nn=": "änn",
        b"Content-Type: text/html\n\n<style>x</style><p>&auml;nn</p>": "änn",
        b"Content-Transfer-Encoding: base64\n\nHello Ann": "Hello Ann",
    }
    assert [read_mail(b"From: a@b.example\n" + raw).text.strip() for raw in bodies] == list(bodies.values())
