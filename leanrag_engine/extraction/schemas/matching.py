"""Find the type of a schema that a model, an agent or a heuristic means by a word; without a schema, normalise it."""

import re
from collections import Counter

from leanrag_engine.core.model import TYPE_KINDS, ExtractionSchema, TypeKind
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.words import word_count
from leanrag_engine.core.text.shortening import cut_end

UNKNOWN = "concept"  # Any other type wins against this one when mentions are merged

_FIRST = re.compile(r"[/,;|:(（、，]")
_SAME = {
    "person": "people, human, human being, character, fictional character, individual, persona, per, 人物, 人, 人名, 人間, 사람, 인물, "
    "personne, persona, pessoa, персона, человек",
    "organisation": "organization, org, company, corporation, institution, agency, business, firm, government agency, "
    "组织, 組織, 机构, 機構, 公司, 企業, 企业, 조직, 회사, 기관, organización, organización, organizzazione, unternehmen, организация",
    "place": "location, loc, geo, gpe, geographic location, geographical location, geopolitical entity, city, country, region, "
    "town, village, 地点, 地點, 地名, 地区, 地區, 場所, 地理位置, 장소, 지명, lieu, lugar, ort, luogo, место",
    "event": "historical event, incident, occurrence, 事件, 活动, 活動, 出来事, イベント, 사건, événement, evento, ereignis, событие",
    "work": "book, film, movie, song, album, novel, artwork, work of art, creative work, publication, paper, "
    "作品, 著作, 书籍, 書籍, 論文, 论文, 작품, œuvre, obra, werk, opera, произведение",
    "product": "产品, 產品, 製品, 商品, 제품, produit, producto, produkt, prodotto, продукт",
    UNKNOWN: "idea, notion, abstract concept, topic, theme, category, thing, entity, unknown, other, misc, miscellaneous, object, "
    "none, n/a, null, undefined, type, noun, keyword, 概念, 观念, 观点, 主题, 主題, 其他, その他, 개념, concepto, konzept, concetto, понятие",
    "method": "technique, procedure, 方法, 手法, 방법, méthode, método, methode, metodo, метод",
    "time": "date, year, period, day, month, time period, duration, 时间, 時間, 日期, 日付, 年份, 시간, 날짜",
    "quantity": "number, amount, money, percentage, measurement, value, cardinal, ordinal, 数量, 數量, 金额, 数字, 수량",
}
_KNOWN = {
    name_key(form): type_ for type_, listed in _SAME.items() for form in (type_, *listed.split(", ")) if form
}


def type_name(given: str) -> str:
    """Return ``given`` in lower case, singular and with synonyms unified (``Locations`` → ``place``), the
    first of several; a long remark is ``concept``."""
    most_characters, most_words = 40, 3
    text = " ".join(clean(given).replace("_", " ").split())
    if whole := _KNOWN.get(name_key(text)):
        return whole
    first = _FIRST.split(text, maxsplit=1)[0].strip(" \"'`*.<>#-")
    key = name_key(first) if first else ""
    if not key or len(key) > most_characters or word_count(key) > most_words:
        return UNKNOWN
    return _KNOWN.get(key, key)


class TypeMatcher:
    """The types of a schema by the words for them. A kind without any type in the schema is open: every type fits."""

    def __init__(self, schema: ExtractionSchema) -> None:
        self._names = {kind: {name_key(name): name for name in schema.types(kind)} for kind in TYPE_KINDS}
        common = {name: type_name(name) for name in schema.types("entity")}
        count = Counter(common.values())
        # A synonym of two types decides nothing between them.
        self._synonyms = {same: name for name, same in common.items() if same != UNKNOWN and count[same] == 1}

    def find(self, kind: TypeKind, given: str) -> str:
        """Return the name of the type in the schema; "" if it has none for ``given``."""
        names = self._names[kind]
        plain = simplify_type(kind, given)
        if not names:
            return plain
        if found := names.get(name_key(_unify_spaces(given))) or names.get(name_key(plain)):
            return found
        return self._synonyms.get(plain, "") if kind == "entity" else ""

    def read(self, kind: TypeKind, given: str) -> str:
        """Return the name of the type in the schema, else ``given`` in the form in which it is proposed."""
        return self.find(kind, given) or simplify_type(kind, given)


def simplify_type(kind: TypeKind, given: str) -> str:
    """Return one form for equal types: ``Works_for`` and ``works for`` are the same relation."""
    if kind == "entity":
        return type_name(given)
    return cut_end(_unify_spaces(given).lower(), 40)


def _unify_spaces(given: str) -> str:
    return " ".join(clean(given).replace("_", " ").split())
