"""Phrases of auto-replies and unsubscribe requests, by language. This module contains only data.

The languages are English, German, French, Spanish, Italian, Portuguese, Dutch and Polish. There are also some Japanese,
Russian and Nordic phrases. Each entry is part of a regular expression over lower-case text.
"""

# Subjects of automatic mail.
AUTOMATIC_SUBJECTS = (
    r"auto(?:matic|mated|matisch\w*|matique|m[aá]tic[ao]|matica|matyczn\w*)?[ -]?(?:re(?:ply|sponse|sponder)|respon[ds]e|antwoord|antwort|r[eé]ponse|respuesta|resposta|risposta)\b",
    r"^auto ?:|(?:automatic|automated|automatisch\w*) (?:message|bericht|nachricht|mitteilung)|(?:message|mensaje|messaggio|mensagem|wiadomo[sś][cć]) auto(?:matique|m[aá]tic[ao]|matyczna)",
    r"(?:r[eé]ponse|respuesta|risposta|resposta) autom[aá]ti\w+|automatische(?:s|r)? (?:antwort|antwoord|abwesenheit\w*)|automatisch antwoord|odpowied[zź] automatyczna|automatyczna odpowied[zź]|autoodpowied[zź]",
    r"out[ -]of[ -](?:the[ -])?office|\booo\b|away from (?:the |my )?(?:office|desk|mail)|on (?:vacation|leave|holiday)|vacation (?:reply|notice|message)|\(vacation\)",
    r"abwesenheit\w*|abwesend|nicht im (?:büro|buero|haus)|au[sß]+er haus|urlaub",
    r"absence du bureau|absent\w* du bureau|message d'absence|en cong[eé]s?|absence\b",
    r"fuera de (?:la )?oficina|ausente|ausencia|de vacaciones|fuori (?:ufficio|sede)|assente|assenza|in ferie",
    r"fora do escrit[oó]rio|aus[eê]ncia|de f[eé]rias|afwezig\w*|niet aanwezig|met vakantie|poza biurem|nieobecno[sś][cć]|na urlopie|jestem na urlopie",
    r"自動(?:応答|返信)|不在|休暇|автоответ|вне офиса|fr[aå]nv[aä]ro|autosvar|automatiskt svar|frav[aæ]r",
)

# Text of out-of-office replies and other automatic replies.
AUTOMATIC_TEXTS = (
    r"(?:i am|i'm|i will be|i'll be|we are|currently|am) (?:\w+ ){0,4}(?:out of (?:the )?office|away from (?:the |my )?(?:office|desk|e-?mail)|on (?:\w+ ){0,2}(?:leave|vacation|holidays?)|travell?ing (?:and|with limited|until))|(?:limited|no) access to (?:my )?e-?mail|(?:will not|won't) be (?:reading|checking) (?:my )?(?:e-?)?mail|this is an auto(?:mated|matic) (?:reply|response|message)|(?:thank you for (?:your|contacting)|we have received) [^.]{0,80}(?:ticket|request) (?:has been|number|id)",
    r"(?:bin|sind|befinde mich|werde) (?:\w+ ){0,6}(?:nicht im (?:büro|buero|haus)|abwesend|im urlaub|außer haus|nicht erreichbar|in elternzeit|in mutterschutz)|(?:ihre|deine) (?:e-?mail|nachricht) wird (?:\w+ ){0,3}nicht (?:\w+ ){0,2}(?:weitergeleitet|gelesen)|abwesenheitsnotiz|dies ist eine automatische",
    r"(?:je suis|je serai|nous sommes|actuellement) (?:\w+ ){0,4}(?:absente?s?|en cong[eé]s?|en vacances|hors du bureau|en d[eé]placement)|ceci est (?:un message|une r[eé]ponse) automatique|réponse automatique",
    r"(?:estoy|estar[eé]|me encuentro|estamos|me encontrar[eé]) (?:\w+ ){0,4}(?:fuera de (?:la )?oficina|de vacaciones|ausente|de baja|de viaje)|(?:este es un mensaje|respuesta) autom[aá]tic[ao]",
    r"(?:sono|sar[oò]|siamo|saremo) (?:\w+ ){0,4}(?:fuori (?:ufficio|sede)|in ferie|in vacanza|assent[ei]|in congedo|in malattia)|(?:questa [eè] una risposta|messaggio) automatic[ao]",
    r"(?:estou|estarei|encontro-me|estamos) (?:\w+ ){0,4}(?:fora do escrit[oó]rio|de f[eé]rias|em f[eé]rias|ausente|de licen[cç]a)|(?:esta [eé] uma (?:resposta|mensagem)|mensagem) autom[aá]tica",
    r"(?:ik ben|wij zijn|momenteel) (?:\w+ ){0,5}(?:afwezig|niet aanwezig|niet op kantoor|met vakantie|op vakantie|met verlof|uit kantoor)|(?:dit is een|een) automatisch (?:antwoord|bericht|gegenereerd)",
    r"(?:jestem|b[eę]d[eę]|przebywam|jeste[sś]my) (?:\w+ ){0,4}(?:poza biurem|na urlopie|nieobecn[yaei]|na zwolnieniu|na wakacjach)|(?:to jest|jest to) (?:\w+ )?(?:automatyczn\w+|autoodpowied)|wiadomo[sś][cć] (?:zosta[lł]a wygenerowana automatycznie|automatyczna)",
    r"自動(?:応答|返信|送信)|不在(?:に|と)して|休暇(?:中|を)|я (?:в отпуске|не в офисе)|автоматический ответ|jag är (?:\w+ ){0,3}(?:borta|ledig|på semester|inte på kontoret)",
)

# Words near the last day on which the person is away.
UNTIL = r"until|till|through|up to|thru|\bto\b|bis|jusqu|\bau\b|hasta|\bal\b|fino|at[eé]|\ba\b|\btot\b|t/m|tot en met|\bdo\b|–|\s-\s|まで"
# Words near the first day on which the person is back.
BACK = r"back|return|again (?:on|from)|wieder|zur[uü]ck|retour|[àa] partir d|regres|vuelv|retorn|rientr|torn|volt|terug|weer|wrac|powr[oó]t|wr[oó]c|ponownie|z powrotem|b[eę]d[eę] (?:ponownie )?dost[eę]pn"

MONTHS: dict[str, int] = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jänner janvier janv enero ene gennaio gen janeiro januari stycznia sty styczeń",
            "february feb februar février fevrier févr febrero febbraio febr fevereiro fev februari lutego lut luty",
            "march mar märz maerz mars marzo março marco maart mrt marca marzec",
            "april apr avril avr abril abr aprile kwietnia kwi kwiecień",
            "may mai mayo maggio mag maio mei maja maj",
            "june jun juni juin junio giugno giu junho czerwca cze czerwiec",
            "july jul juli juillet juil julio luglio lug julho lipca lip lipiec",
            "august aug août aout agosto ago augustus sierpnia sie sierpień",
            "september sept sep septembre septiembre settembre set setembro września wrzesień wrz",
            "october oct oktober okt octobre octubre ottobre ott outubro out października październik paź",
            "november nov novembre noviembre novembro listopada listopad lis",
            "december dec dezember dez décembre decembre diciembre dic dicembre dezembro grudnia grudzień gru",
        ),
        1,
    )
    for name in names.split()
}

UNSUBSCRIBE = (
    # English
    r"unsubscribe|un-subscribe|opt[ -]?out|remove me|remove (?:my|this|our) (?:e-?mail|address|name)|(?:take|get) me off|delete (?:me|my (?:e-?mail|address|data|details))|stop (?:e-?mailing|sending|contacting|writing|spamming)|(?:do not|don't|dont|never) (?:e-?mail|contact|write(?: to)?|send) me|no (?:more|further) (?:e-?mails|mails|messages)|off your (?:mailing )?list|^\s*(?:please )?(?:stop|remove)(?: please)?\W*$",
    # German
    r"abmelden|abbestellen|austragen|abgemeldet werden|(?:aus|von) (?:dem|ihrem|eurem|deinem|der) (?:e-?mail-?)?(?:verteiler|liste|newsletter)|keine (?:weiteren |mehr )?(?:e-?mails?|mails|nachrichten|werbung|newsletter)|nicht (?:mehr|weiter) (?:kontaktieren|anschreiben)|kontaktieren sie mich nicht|l[oö]schen sie (?:meine|mich)|(?:meine|mich) (?:\w+ ){0,4}(?:l[oö]schen|entfernen)",
    # French
    r"d[eé]sinscri\w*|d[eé]sabonn\w*|ne (?:plus|souhaite plus) (?:\w+ ){0,3}(?:recevoir|contacter|[eé]crire)|(?:retire[zr]|supprime[zr]|enleve[zr]|enl[eè]ve[zr])[ -](?:moi|mon|mes)|plus (?:\w+ ){0,3}recevoir (?:de|vos)|arr[eê]te[zr] (?:de|vos)|ne (?:me|m') ?(?:contactez|[eé]crivez) plus",
    # Spanish
    r"(?:dar(?:me|nos)?|d[eé][nm]?(?:me|nos)|quiero|solicito) (?:\w+ ){0,3}(?:de )?baja|desuscri\w*|cancelar (?:mi |la )?suscripci[oó]n|no (?:quiero|deseo) (?:\w+ ){0,3}recibir|elim[ií]ne(?:me|nme)|b[oó]rren?me|(?:no me|dejen de|deje de) (?:escriban|escribir|enviar|env[ií]en|mandar|contacten)|elim[ií]nen? mi (?:correo|direcci[oó]n)",
    # Italian
    r"disiscriv\w*|cancella(?:mi|temi|rmi|re il mio|te il mio)|annulla\w* (?:l')?iscrizione|non (?:voglio|desidero|vorrei) (?:pi[uù] )?(?:\w+ ){0,2}ricevere|rimuove(?:te|re|rmi|temi)|rimuovi(?:mi)?|non (?:scrivetemi|contattatemi|inviatemi)|toglietemi",
    # Portuguese
    r"descadastr\w*|cancelar (?:a )?(?:minha )?(?:inscri[cç][aã]o|subscri[cç][aã]o|assinatura)|(?:remov(?:a|er|am)|retir(?:e|ar|em)|exclu(?:a|ir|am))(?:-me| (?:o |a )?(?:meu|minha|me))|n[aã]o (?:quero|desejo) (?:mais )?(?:\w+ ){0,2}receber|parem? de (?:enviar|mandar|escrever|me)|n[aã]o me (?:enviem|mandem|contatem|escrevam)",
    # Dutch
    r"uitschrijven|afmelden|uitgeschreven|schrijf (?:me|mij) uit|meld (?:me|mij) af|(?:haal|verwijder) (?:me|mij|mijn)|geen (?:e-?)?mails? meer|geen (?:verdere )?(?:berichten|nieuwsbrie\w+) meer|niet (?:meer )?(?:mailen|benaderen|contacteren)|stop met (?:mailen|sturen)|van (?:de|uw|jullie) (?:mailing)?lijst",
    # Polish
    r"wypis(?:a[cć]|z|anie|uj[eę]|zcie|cie)|rezygnuj[eę]|nie (?:chc[eę]|[zż]ycz[eę] sobie) (?:\w+ ){0,3}(?:otrzymywa[cć]|dostawa[cć]|wi[eę]cej)|usu[nń](?:cie|[aą][cć]|i[eę]cie)? (?:mnie|m[oó]j)|prosz[eę] (?:o usuni[eę]cie|mnie (?:usun[aą][cć]|wypisa[cć])|nie (?:pisa[cć]|wysy[lł]a[cć]|przysy[lł]a[cć]))|nie (?:piszcie|wysy[lł]ajcie|przysy[lł]ajcie)",
)
# Words that negate an unsubscribe phrase, or turn it into a question, if they come before it.
NOT_UNSUBSCRIBE = r"(?:not|n't|never|nicht|kein|pas|non|n[aã]o|no|niet|nie)\s+(?:\w+\s+){0,3}$|how (?:do|can|does|would) (?:\w+\s+){0,4}$|\bif\s+(?:\w+\s+){0,6}$"
