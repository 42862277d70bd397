"""Words about mailboxes, by language, from which `reply_rules` builds its phrases. This module contains only data.
Words are written without accents and may be truncated: `unbekannt` also matches `unbekannte`. The words are matched
against text that was normalized in the same way.
"""

# The subject of a reply. Replies about the sender are filtered out before these words apply.
RECIPIENT = (
    # English
    "user | mailbox | mail box | mbox | mail drop | mailaddress | account | address | recipient | addressee | alias | local part",
    "local-part | userid | inbox | rcpt | person at | customer | member | mailfolder",
    # French, German, Dutch
    "utilisateur | destinataire | compte | adres | boite | benutzer | empfanger | empfaenger | adressat | postfach",
    "konto | mailadresse | gebruiker | geadresseerde | ontvanger | postbus | mailadres",
    # Spanish, Portuguese, Italian, Romanian
    "usuario | destinatario | destin. | casilla | cuenta | buzon | direccion | direccion de correo electronico | conta de | caixa | endereco | utente",
    "casella | indirizzo | utilizator | destinatar",
    # Polish, Czech, Slovak, Hungarian, Turkish, Nordic
    "uzytkownik | odbiorca | adresat | skrzynk | konta | uzivatel | prijemce | schrank | felhasznalo | cimzett",
    "postafiok | kullanici | alici | hesap | posta kutusu | mottagare | anvandare | modtager | bruger | mottaker",
    "brukeren | vastaanottaja | kayttaja | e-postadress",
    # Russian, Ukrainian, Greek
    "пользовател | адресат | адрес эл | почтовый адрес | получател | почтовый ящик | ящик | аккаунт | користувач | одержувач | скринька",
    "παραληπτης | χρηστης",
    # Chinese, Japanese, Korean
    "用户 | 用戶 | 收件人 | 收件者 | 账号 | 帐号 | 帳號 | 邮件地址 | 郵件地址 | 邮箱 | 信箱 | ユーザ | 宛先 | アドレス | 送信先 | 受信者 | ディレクトリ",
    "メールボックス | 사용자 | 수신자 | 받는 사람 | 받는사람 | 계정 | 메일 주소 | 메일주소 | 메일함",
)

# Phrases near a recipient, possibly a few words away, which mean that the recipient does not exist.
NONEXISTENT = (
    "unknown | not known | not exist | doesn't exist | dosn't exist | doesnt exist | don't exist | no exist | not found",
    "not be found | isn't found | wasn't found | couldn't be found | nonexist | non-exist | non exist | unexist",
    "not listed | not recogni | no longer | not registered | unregistered | unallocated | can't find | cannot find | unable to find",
    "couldn't find | not configured to receive | not handled | not hosted | not a member | not have an account",
    "lookup in domain map failed",
    "inconnu | inexistant | n'existe | introuvable | unbekannt | nicht bekannt | existiert nicht | nicht gefunden",
    "nicht vorhanden | nicht vergeben | nicht im | onbekend | bestaat niet | niet gevonden | niet bekend",
    "desconocid | desconhecid | no existe | nao existe | inexist | no encontrad | nao encontrad | sconosciut",
    "non esiste | inesistent | non trovat | necunoscut | nu exista",
    "nieznan | nie istnieje | nie ma | nie znaleziono | neexistuje | neznam | nenalezen | nem letezik | ismeretlen",
    "bulunamadi | bilinmiyor | mevcut degil | okand | ukendt | ukjent | finns inte | findes ikke | tuntematon | ei ole",
    "не существует | не найден | неизвест | нет такого | не зарегистрирован | не існує | не знайден | αγνωστος",
    "δεν υπαρχει",
    "no se encontro | no se ha encontrado | no se pudo encontrar | non e stato trovato | nao pode ser encontrad | nao foi encontrad",
    "niet worden gevonden | inte att hitta | inte hittas | hittades inte",
    "不存在 | 未开通 | 未找到 | 找不到 | 無此 | 无此 | 查无 | 查無 | 存在しません | 存在しない | 見つかりません | ありません",
    "登録されていません | 不明 | 존재하지 | 없는 | 없습니다 | 찾을 수 없",
)

# Phrases directly next to a recipient that will never accept mail again, such as "invalid user" and "mailbox was
# deleted".
CLOSED = (
    "invalid | not valid | not a valid | isn't valid",
    "closed | expired | discontinued | terminated | deleted | removed | retired | cancelled",
    "canceled | bad | wrong | incorrect | illegal | abandoned | decommissioned",
    "invalide | supprime | ferme | expire | geschlossen | geloscht | ungultig | opgeheven | ongeldig",
    "invalid | expirad | eliminad | excluid | encerrad",
    "scadut | non valid | errato | cancellat | ha expirado",
    "usuniet | niepoprawn | zrusen | gecersiz | kapali | ogiltig",
    "удален | закрыт | недействител | неверн | недійсн",
    "已注销 | 已关闭 | 无效 | 無效 | 错误 | 無効 | 削除され | 廃止 | 삭제된 | 잘못된",
)

# Phrases about a recipient that exists but is disabled. The recipient's owner or administrator can enable it again.
DISABLED = (
    "disabled | deactivated | inactivated | archived | archivee | inactive | not active | not activated | now disabled",
    "desactive | deaktiviert | gesperrt wegen inaktivitat | inaktiv | gedeactiveerd | uitgeschakeld",
    "inactiv | desactivad | desativad | inativ | disattivat | disatttivat | bloccato per inutilizzo",
    "nieaktywn | zablokowane administracyjnie | neaktivni | отключен | неактивн | заблокирован за неактивн",
    "已停用 | 已禁用 | 停止され | 휴면 | 비활성",
)

# Phrases about a recipient that does not accept mail now, but may do so later.
SUSPENDED = (
    "suspended | locked | frozen | temporarily unavailable | temporarily disabled | temporary disabled | on hold | under maintenance | is restricted",
    "suspendu | verrouille | gesperrt | suspendid | bloquead | suspenso | sospes | bloccat | zablokowan | zawieszon",
    "заблокирован | приостановлен | 冻结 | 暂停 | 凍結 | 停止中 | 一時的に | 일시 정지 | 일시정지",
)

# Some servers use these phrases for a recipient that no longer exists, and others use them for any reason.
UNAVAILABLE = (
    "unavailable | not available | non disponible | pas disponible | indisponible | nicht verfugbar | nicht erreichbar",
    "niet beschikbaar | no disponible | nao disponivel | indisponivel | non disponibile | niedostepn | nedostupn",
    "недоступен | недоступн | kullanilamiyor | 不可用 | 利用できません | 사용할 수 없",
)

FULL = (
    "full! | over quota | overquota | over-quota | quota exceed | exceed | exhausted | out of storage | not enough",
    "insufficient | no space | space limit | storage limit | too many messages | too many mails",
    "plein | sature | voll | uberschritten | ueberschritten | zuviele mails | zu viele mails",
    "vol. | llen | sin espacio | excedid | superad | chei | lotad | pien | esaurit | przepelnion | pelna | plna",
    "betelt | dolu | переполнен | заполнен | превышен | переповнен",
    "已满 | 已滿 | 空间不足 | 超容 | 容量不足 | 一杯 | いっぱい | 満杯 | 容量を超 | 용량 초과 | 용량초과 | 가득",
)

# Things of which a sender can send too many, and the phrases that servers use for this.
FLOW = (
    "messages | mails | emails | e-mails | connections | sessions | requests | commands | transactions | deliveries",
    "data sent | traffic | bandwidth | attempts | bounces | volume | throughput | for sending | transfer quota",
)
EXCESS = (
    "too many | too much | excessive | exceed | maximum number | max number | maximum amount | limit reached",
    "limit has been reached | limit was reached | reached the limit | reached the maximum | maximum threshold",
)
