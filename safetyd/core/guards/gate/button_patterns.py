"""Labels of buttons with lasting effects: buy, subscribe, cancel, publish, transfer, sign, erase.

The verb is at the start of a label or after another verb ("Review and place order", "Tap to buy").
Elsewhere the same words only name things: "Show order", "Where to buy", "Manage subscription".
Common labels in German, French and Spanish are included.
"""

from typing import Final

from safetyd.core.text.patterns import PatternConfig

CLICKS: Final = frozenset({"click", "key", "drag"})

_LEAD: Final = (
    r"(?:^|[^\w\s]\s*|\b(?:and|then|yes|ok|okay|please)\s+"
    r"|\b(?:swipe|slide|tap|click|press|hold)\s+to\s+"
    r"|\b(?:click|tap|press|hit|push|select|choose)\s+(?:on\s+)?(?:the\s+)?"
    r"|^[$€£]?\s?[\d.,]+\s*[$€£]?\s+)"
)
_THE: Final = r"(?:\s+(?:your|my|this|the|an?|all|entire|whole|current|existing))*"
_END: Final = r"\W*$"
_BOUGHT: Final = r"(?:order|purchase|payment|booking|reservation|bid|bet|trade)"
_LASTING: Final = (
    r"(?:orders?|items?|subscriptions?|membership|plan|bookings?|reservations?|appointments?|trip"
    r"|ride|flight|tickets?|policy|contract|accounts?|service|auto-?renewal|trial|delivery"
    r"|shipment|events?|meetings?|donation)"
)


def _labels(**patterns: str) -> tuple[PatternConfig, ...]:
    return tuple(
        PatternConfig(name=name, pattern=f"{_LEAD}(?:{pattern})")
        for name, pattern in patterns.items()
    )


# In these languages only whole labels count. Their rules are named after the language.
_GERMAN: Final = (
    r"(?:^|\s)(?:kaufen|bestellen|bezahlen|buchen|reservieren|abonnieren|spenden|überweisen"
    r"|kündigen|stornieren|veröffentlichen|absenden|abschicken)(?:\s(?:für|ab)\s.{1,20})?" + _END,
    r"^(?:\w+\s)*(?:kauf|bestellung|buchung|vertrag|abo|abonnement|mitgliedschaft|test|testphase"
    r"|probeabo|probemonat)\s(?:abschließen|abschliessen|aufgeben|beenden|starten|beginnen)" + _END,
    r"^(?:konto|profil|account)\s(?:löschen|schließen|schliessen|auflösen)" + _END,
    r"^(?:jetzt\s|\d+\stage\s)?(?:kostenlos|gratis)\s(?:testen|ausprobieren)" + _END,
    r"^(?:jetzt\s)?mitglied\swerden" + _END,
)
_FRENCH: Final = (
    r"^(?:acheter|payer|commander|réserver|publier|souscrire|résilier|virer|donner|envoyer"
    r"|s['\x{2019}]abonner|se\sdésabonner)(?:\s.{0,40})?" + _END,
    r"^(?:passer|annuler|confirmer|valider|finaliser|procéder)\s(?:au\s|à\s)?"
    r"(?:(?:la|le|ma|mon|votre|une|un)\s|l['\x{2019}])?"
    r"(?:commande|achat|paiement|abonnement|réservation|essai|vol)" + _END,
    r"^(?:commencer|démarrer|activer)\s(?:(?:mon|votre|un)\s|l['\x{2019}])?(?:essai|abonnement)"
    r"(?:\sgratuit)?" + _END,
    r"^essayer\sgratuitement" + _END,
    r"^(?:supprimer|fermer|clôturer)\s(?:le|mon|votre)\scompte" + _END,
)
_SPANISH: Final = (
    r"^(?:comprar|pagar|reservar|publicar|contratar|donar|transferir|enviar|suscribirse"
    r"|suscribirme|suscríbete)(?:\s.{0,40})?" + _END,
    r"^(?:realizar|hacer|finalizar|completar|confirmar|tramitar|cancelar|anular)\s"
    r"(?:(?:el|la|mi|tu|su)\s)?"
    r"(?:pedido|compra|pago|reserva|suscripci[oó]n|membres[ií]a|vuelo|cuenta)" + _END,
    r"^(?:iniciar|empezar|comenzar|activar)\s(?:(?:el|la|mi|tu|su)\s)?"
    r"(?:prueba|suscripci[oó]n)(?:\sgratuita|\sgratis)?" + _END,
    r"^(?:probar\sgratis|darse\sde\sbaja)" + _END,
    r"^(?:eliminar|borrar|cerrar)\s(?:(?:la|mi|tu|su)\s)?cuenta" + _END,
)


def _whole(**languages: tuple[str, ...]) -> tuple[PatternConfig, ...]:
    return tuple(
        PatternConfig(name=name, pattern="|".join(f"(?:{one})" for one in patterns))
        for name, patterns in languages.items()
    )


_IN_ENGLISH: Final = _labels(
    buy=(
        r"(?:buy|pre-?order|donate)\b|rent\s+(?:now|it|this|hd|uhd|4k|movie|for|from)\b|bid\s+now\b"
        rf"|check\s+out(?:\s+(?:now|securely|with\s+\w+))?{_END}"
    ),
    order=(
        rf"(?:place|complete|finish|finali[sz]e){_THE}\s+{_BOUGHT}\b|order{_END}"
        r"|order\s+(?:now|again|it|this|and|with)\b|re-?order\s+(?:now|items?|this)\b"
    ),
    book=(
        r"(?:book|reserve)\s+(?:now|it|this|your|my|an?|the|and|for|instantly"
        rf"|room|flight|table|tickets?|seats?|stay|trip|appointment)\b|reserve{_END}"
    ),
    upgrade=(
        rf"(?:upgrade|renew)(?:\s+(?:now|to|and|for|plan|account|your|my|membership|subscription)\b"
        rf"|{_END})|(?:top\s+up|add\s+(?:funds|money|credits?))\b"
    ),
    subscribe=(
        r"(?:re-?)?subscribe\b"
        rf"|(?:start|begin|activate|try|get|claim){_THE}(?:\s+[\w-]+){{0,3}}"
        r"\s+(?:trial|subscription|membership)\b"
        r"|join\s+(?:prime|premium|plus|pro)\b|become\s+a\s+(?:member|patron|sponsor|subscriber)\b"
    ),
    unsubscribe=r"unsubscribe\b|opt\s+out\b",
    cancel=(
        rf"(?:cancel|terminate|end|close|deactivate|downgrade){_THE}\s+{_LASTING}\b"
        rf"|(?:return|refund){_THE}\s+(?:orders?|items?|purchase|bookings?|tickets?|flight|trip)\b"
        r"|request\s+(?:an?\s+)?(?:refund|cancellation)\b"
    ),
    publish=(
        r"(?:publish|unpublish|republish|tweet|retweet|repost)\b|go\s+live\b"
        rf"|(?:post|share)(?:\s+(?:now|it|publicly)|{_THE}\s+(?:review|comment|reply|answer|update"
        rf"|status|question|story|video|photo|post))\b|post{_END}"
        r"|(?:squash\s+and\s+|rebase\s+and\s+)?merge\s+(?:pull\s+request|branch|now)\b"
        rf"|deploy(?:\s+(?:now|to|site|changes|production)\b|{_END})"
        r"|launch\s+(?:campaign|ads?|now)\b"
    ),
    transfer=(
        rf"(?:transfer|withdraw)(?:\s+(?:now|money|funds|cash|balance|all|to|[$€£\d])|{_END})"
        r"|(?:wire|deposit|invest|sell|swap|release)\s+(?:now|money|funds|cash|all|shares?|stocks?"
        r"|payment|[$€£\d])|cash\s+out\b"
    ),
    sign=(
        rf"(?:e-?sign|sign){_THE}\s+(?:contract|agreement|document|lease|and\s+\w+)\b"
        rf"|accept{_THE}\s+(?:offer|quote|bid|contract|agreement|order|proposal|terms)\b"
    ),
    erase=(
        r"(?:erase|wipe|purge|discard)\b|empty\s+(?:the\s+)?(?:trash|(?:recycle\s+)?bin|spam)\b"
        r"|clear\s+(?:all\s+)?(?:data|history|everything|storage|browsing\s+data)\b"
    ),
)
BUTTONS: Final = (*_IN_ENGLISH, *_whole(german=_GERMAN, french=_FRENCH, spanish=_SPANISH))
