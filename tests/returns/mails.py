"""Mails written for these tests: what people and programs write back, in eight languages. None of them was ever sent."""

from email.message import EmailMessage
from typing import NamedTuple

QUOTE = (
    "On Mon, 16 Nov 2026 at 09:00, Ben <ben@sender.example> wrote:\n> Hello Ann,\n> Click here to unsubscribe.\n> Ben\n"
)


def mail(
    text: str,
    *,
    subject: str = "Re: An offer",
    sender: str = "Ann <ann@people.example>",
    headers: dict[str, str] | None = None,
    answers: bool = True,
) -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = sender, "Ben <ben@sender.example>", subject
    message["Date"] = "Tue, 17 Nov 2026 10:00:00 +0000"
    message["Message-ID"] = "<answer@people.example>"
    if answers:
        message["In-Reply-To"] = "<one@sender.example>"
    for name, value in (headers or {}).items():
        message[name] = value
    message.set_content(text)
    return message.as_bytes()


class Away(NamedTuple):
    subject: str
    text: str
    back_on: str | None


ABSENCES = (
    Away(
        "Automatic reply: An offer",
        "I am out of the office until November 27, 2026 with limited access to email.",
        "2026-11-28",
    ),
    Away("Out of Office: An offer", "Thanks for your message. I'll be back on 30 November.", "2026-11-30"),
    Away("Re: An offer", "I am currently on parental leave and will return on 2027-01-11.", "2027-01-11"),
    Away(
        "Automatische Antwort: Ein Angebot",
        "Ich bin bis zum 27.11.2026 nicht im Büro. Ihre E-Mail wird nicht weitergeleitet.",
        "2026-11-28",
    ),
    Away("Abwesenheitsnotiz: Ein Angebot", "Ich bin im Urlaub und ab dem 1. Dezember wieder erreichbar.", "2026-12-01"),
    Away("Réponse automatique : Une offre", "Je suis absent du bureau jusqu'au 27 novembre 2026 inclus.", "2026-11-28"),
    Away("Absence du bureau", "Je suis en congés. De retour le 30/11/2026.", "2026-11-30"),
    Away(
        "Respuesta automática: Una oferta",
        "Estoy de vacaciones hasta el 27 de noviembre. Regreso el 30 de noviembre.",
        "2026-11-30",
    ),
    Away("Fuera de la oficina", "Me encuentro fuera de la oficina hasta el 04/12/2026.", "2026-12-05"),
    Away("Risposta automatica: Un'offerta", "Sono fuori ufficio fino al 27 novembre 2026.", "2026-11-28"),
    Away("Assenza dall'ufficio", "Sono in ferie, rientro il 30.11.2026.", "2026-11-30"),
    Away("Resposta automática: Uma oferta", "Estou de férias até 27 de novembro de 2026.", "2026-11-28"),
    Away("Ausência", "Estarei fora do escritório. Volto em 30/11/2026.", "2026-11-30"),
    Away("Automatisch antwoord: Een aanbod", "Ik ben afwezig tot en met 27 november 2026.", "2026-11-28"),
    Away("Afwezig: Een aanbod", "Ik ben met vakantie en ben terug op 30 november.", "2026-11-30"),
    Away("Odpowiedź automatyczna: Oferta", "Jestem na urlopie do 27 listopada 2026.", "2026-11-28"),
    Away("Poza biurem", "Jestem poza biurem. Wracam 30.11.2026.", "2026-11-30"),
    Away("Automatic reply: An offer", "This mailbox is read on working days.", None),
    Away("Automatic reply: An offer", "I was away until 3 March 2019.", None),
)

REPLIES = (
    "Sounds good. Can we talk on 24 November?",
    "Yes please, send me the offer. I am in the office again from Monday.",
    "Not interested, thank you.",
    "We are happy with our supplier. How do I unsubscribe a user in your product?",
    "Please don't remove me from the list, I like it!",
    "Klingt gut, bitte rufen Sie mich an. Der Preis ist uns zu hoch.",
    "Danke, aber wir haben schon einen Anbieter. Ich war im Urlaub und habe es erst jetzt gesehen.",
    "Merci, pouvez-vous m'envoyer vos tarifs ?",
    "Gracias, me interesa. ¿Podemos hablar mañana?",
    "Grazie, mi interessa. Mi chiami domani.",
    "Obrigado, tenho interesse. Podemos falar amanhã?",
    "Bedankt, klinkt interessant. Bel me morgen even.",
    "Dziękuję, proszę o ofertę. Zadzwonię jutro.",
)

REQUESTS = (
    "unsubscribe",
    "STOP",
    "Please remove me from your list.",
    "Take me off your mailing list!!",
    "Do not email me again.",
    "Bitte nehmen Sie mich aus dem Verteiler.",
    "Ich möchte mich abmelden.",
    "Bitte keine weiteren E-Mails.",
    "Merci de me désinscrire.",
    "Je ne souhaite plus recevoir vos messages.",
    "Quiero darme de baja, por favor.",
    "No quiero recibir más correos.",
    "Cancellatemi dalla lista, grazie.",
    "Non desidero più ricevere le vostre mail.",
    "Por favor, remova meu e-mail da lista.",
    "Não quero mais receber estes e-mails.",
    "Graag uitschrijven.",
    "Haal mij van de lijst.",
    "Proszę mnie wypisać z listy.",
    "Nie chcę otrzymywać więcej wiadomości.",
)

NOTICE = "This is the mail system.\n\n<ann@people.example>: host mx.people.example said: {said} (in reply to RCPT TO command)\n"


def report(
    status: str,
    said: str,
    *,
    action: str = "failed",
    recipient: str = "ann@people.example",
    message_id: str = "<one@sender.example>",
) -> bytes:
    return f"""Return-Path: <>
From: Mail Delivery System <MAILER-DAEMON@mx.relay.example>
To: ben@sender.example
Subject: Undelivered Mail Returned to Sender
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b1"

--b1
Content-Type: text/plain

{NOTICE.format(said=said)}
--b1
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.relay.example

Final-Recipient: rfc822; {recipient}
Original-Recipient: rfc822;{recipient}
Action: {action}
Status: {status}
Diagnostic-Code: smtp; {said}

--b1
Content-Type: message/rfc822

From: Ben <ben@sender.example>
To: {recipient}
Subject: An offer
Message-ID: {message_id}

Hello
--b1--
""".encode()


def complaint(
    kind: str = "abuse", *, recipient: str = "ann@people.example", message_id: str = "<one@sender.example>"
) -> bytes:
    return f"""From: complaints@provider.example
To: abuse@sender.example
Subject: FW: An offer
MIME-Version: 1.0
Content-Type: multipart/report; report-type=feedback-report; boundary="b1"

--b1
Content-Type: text/plain

This is an email abuse report.
--b1
Content-Type: message/feedback-report

Feedback-Type: {kind}
User-Agent: Provider/1.0
Version: 1
Original-Rcpt-To: <{recipient}>

--b1
Content-Type: message/rfc822

From: Ben <ben@sender.example>
To: {recipient}
Message-ID: {message_id}

Hello
--b1--
""".encode()
