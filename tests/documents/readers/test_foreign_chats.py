"""Exports of chats in German, French, Spanish, Japanese and Korean: who speaks when, and greetings that are no names."""

from __future__ import annotations

import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.model import LoadedDocument
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.readers.chats import CHAT_MEDIA_TYPE, read_chat
from leanrag_engine.extraction.heuristic.extract import extract

EXPORTS = {
    "a German WhatsApp": """12.05.23, 21:03 - Nachrichten und Anrufe sind Ende-zu-Ende-verschlüsselt.
12.05.23, 21:03 - Jürgen Weiß: Hallo Sabine, guten Abend! Die Vorhänge sind heute angekommen.
12.05.23, 21:05 - Sabine Krüger: Super. Passen sie an die Balkontür?
13.05.23, 08:15 - Jürgen Weiß: Guten Morgen Sabine! Ja, ich hänge sie am Samstag auf. Viele Grüße aus Köln
13.05.23, 08:16 - Sabine Krüger: Danke dir, bis Samstag!
""",
    "a German Slack": """12. Mai 2023
Jürgen Weiß  21:03
Hallo Sabine, die Vorhänge sind heute angekommen!
Sabine Krüger  21:05
Super. Passen sie an die Balkontür?
13. Mai 2023
Jürgen Weiß  08:15
Guten Morgen! Ich hänge sie am Samstag auf.
""",
    "a German dialogue": """Datum: 12. Mai 2023

Jürgen: Hallo Sabine, die Vorhänge sind heute angekommen!
Sabine: Super. Passen sie an die Balkontür?
Jürgen: Ja. Ich hänge sie am Samstag auf.
Sabine: Danke, bis Samstag!
""",
    "a French WhatsApp": """12/05/2023 à 21:03 - Hélène Dupré: Bonjour Étienne, les rideaux sont arrivés aujourd'hui !
12/05/2023 à 21:05 - Étienne Noël: Super, merci. Vont-ils sur la porte du balcon ?
13/05/2023 à 08:15 - Hélène Dupré: Oui. Je les accroche samedi. Bises
13/05/2023 à 08:16 - Étienne Noël: Bonne soirée Hélène
""",
    "a French dialogue": """Le 12 mai 2023

Hélène : Bonjour Étienne, les rideaux sont arrivés !
Étienne : Super. Vont-ils sur la porte du balcon ?
Hélène : Oui. Je les accroche samedi.
Étienne : Merci, à samedi !
""",
    "a Spanish WhatsApp": """12/5/23, 9:03 p. m. - Begoña Ibáñez: Hola Íñigo, ¡las cortinas llegaron hoy!
12/5/23, 9:05 p. m. - Íñigo Peña: Gracias. ¿Caben en la puerta del balcón?
13/5/23, 8:15 a. m. - Begoña Ibáñez: Buenos días. Sí, las cuelgo el sábado.
13/5/23, 8:16 a. m. - Íñigo Peña: Vale. Un abrazo
""",
    "a Spanish dialogue": """12 de mayo de 2023

Begoña: Hola Íñigo, ¡las cortinas llegaron hoy!
Íñigo: Gracias. ¿Caben en la puerta?
Begoña: Sí. Las cuelgo el sábado.
Íñigo: Vale, hasta el sábado.
""",
    "a Japanese WhatsApp": """2023/05/12 21:03 - 山田花子: こんにちは、佐藤さん。カーテンが今日届きました。
2023/05/12 21:05 - 佐藤健: ありがとう。ベランダの窓に合いますか。
2023/05/13 8:15 - 山田花子: おはようございます。土曜日に掛けます。
2023/05/13 8:16 - 佐藤健: 了解です
""",
    "LINE": """[LINE] 佐藤健とのトーク履歴
保存日時：2023/05/14 10:00

2023/05/12(金)
21:03\t山田花子\tこんにちは、佐藤さん。カーテンが今日届きました。
21:05\t佐藤健\tありがとう。ベランダの窓に合いますか。

2023/05/13(土)
08:15\t山田花子\tおはようございます。土曜日に掛けます。
08:16\t佐藤健\t了解です
""",
    "a Japanese dialogue": """2023年5月12日

山田：こんにちは、佐藤さん。カーテンが届きました。
佐藤：ありがとう。窓に合いますか。
山田：はい。土曜日に掛けます。
佐藤：了解です。
""",
    "a Korean WhatsApp": """2023. 5. 12. 오후 9:03, 김민수 : 안녕하세요 지영 씨, 커튼이 오늘 도착했어요.
2023. 5. 12. 오후 9:05, 박지영 : 감사합니다. 베란다 문에 맞아요?
2023. 5. 13. 오전 8:15, 김민수 : 좋은 아침입니다. 토요일에 달게요.
2023. 5. 13. 오전 8:16, 박지영 : 네 알겠습니다
""",
    "KakaoTalk": """박지영 님과 카카오톡 대화
저장한 날짜 : 2023-05-14 10:00:00

--------------- 2023년 5월 12일 금요일 ---------------
[김민수] [오후 9:03] 안녕하세요 지영 씨, 커튼이 오늘 도착했어요.
[박지영] [오후 9:05] 감사합니다. 베란다 문에 맞아요?
--------------- 2023년 5월 13일 토요일 ---------------
[김민수] [오전 8:15] 좋은 아침입니다. 토요일에 달게요.
[박지영] [오전 8:16] 네 알겠습니다
""",
    "KakaoTalk on a phone": """2023년 5월 12일 오후 9:03, 김민수 : 안녕하세요 지영 씨, 커튼이 오늘 도착했어요.
2023년 5월 12일 오후 9:05, 박지영 : 감사합니다. 베란다 문에 맞아요?
2023년 5월 13일 오전 8:15, 김민수 : 좋은 아침입니다. 토요일에 달게요.
2023년 5월 13일 오전 8:16, 박지영 : 네 알겠습니다
""",
    "a Korean dialogue": """2023년 5월 12일

김민수: 안녕하세요, 커튼이 오늘 도착했어요.
박지영: 감사합니다. 베란다 문에 맞아요?
김민수: 네. 토요일에 달게요.
박지영: 알겠습니다.
""",
}

SPEAKERS = {
    "a German WhatsApp": ["Jürgen Weiß", "Sabine Krüger"],
    "a German Slack": ["Jürgen Weiß", "Sabine Krüger"],
    "a German dialogue": ["Jürgen", "Sabine"],
    "a French WhatsApp": ["Hélène Dupré", "Étienne Noël"],
    "a French dialogue": ["Hélène", "Étienne"],
    "a Spanish WhatsApp": ["Begoña Ibáñez", "Íñigo Peña"],
    "a Spanish dialogue": ["Begoña", "Íñigo"],
    "a Japanese WhatsApp": ["山田花子", "佐藤健"],
    "LINE": ["山田花子", "佐藤健"],
    "a Japanese dialogue": ["山田", "佐藤"],
    "a Korean WhatsApp": ["김민수", "박지영"],
    "KakaoTalk": ["김민수", "박지영"],
    "KakaoTalk on a phone": ["김민수", "박지영"],
    "a Korean dialogue": ["김민수", "박지영"],
}
NO_NAMES = {
    *(
        "Hallo",
        "Guten Morgen",
        "Morgen Sabine",
        "Viele Grüße",
        "Danke",
        "Samstag",
        "Datum",
        "Bonjour",
        "Bonjour Étienne",
    ),
    *(
        "Bises",
        "Merci",
        "Hola",
        "Hola Íñigo",
        "Gracias",
        "Buenos",
        "Le 12 mai 2023",
        "de mayo de 2023",
        "토요일",
        "土曜日",
    ),
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_its_turns_have_speaker_day_and_time(kind: str) -> None:
    found = read_chat(EXPORTS[kind])
    assert found is not None
    dialogue = "dialogue" in kind
    days = ["2023-05-12"] if dialogue else ["2023-05-12", "2023-05-13"]
    paragraphs = found.text.split("\n\n")
    assert [part for part in paragraphs if part.startswith("#")] == [f"# {day}" for day in days]
    first, second = SPEAKERS[kind]
    assert found.title.startswith(f"Conversation of {first} and {second}, 2023-05-12")
    assert found.metadata["date"] == "2023-05-12"
    assert found.metadata.get("last_date", "2023-05-13") == "2023-05-13"
    turns = [part for part in paragraphs if f"{first}: " in part or f"{second}: " in part]
    assert len(turns) == (3 if kind == "a German Slack" else 4)
    for speaker, turn in zip([first, second], turns, strict=False):
        label, _, said = turn.partition(": ")
        assert said
        time, _, name = label.rpartition("] ")
        assert name == speaker
        assert dialogue or time.lstrip("[") in {"21:03", "21:05", "9:03 PM", "9:05 PM"}
    halves = [turn.partition("]")[0] for turn in turns]
    assert dialogue or all(("PM" in half) == ("9:0" in half) for half in halves if "M" in half)


@pytest.mark.parametrize("kind", EXPORTS)
def test_its_speakers_are_persons_and_its_greetings_no_names(kind: str) -> None:
    found = read_chat(EXPORTS[kind])
    assert found is not None
    document = LoadedDocument("chat", found.title, found.text, CHAT_MEDIA_TYPE)
    chunks = chunk(document, tokenizer=TiktokenTokenizer(), max_tokens=512, overlap=0)
    types = {each.name: each.type for one in extract(chunks, found.title) for each in one.entities}
    assert {name: types.get(name) for name in SPEAKERS[kind]} == dict.fromkeys(SPEAKERS[kind], "person")
    assert not NO_NAMES & types.keys()
