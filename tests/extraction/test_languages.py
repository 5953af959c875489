"""What reading without a model makes of short texts in five languages, against what their authors see in them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.model import LoadedDocument
from leanrag_engine.core.text.language.sentences import sentences
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.dates import find_date
from leanrag_engine.extraction.heuristic.extract import extract


class Sample(NamedTuple):
    """Sentences that make up a text, names with their types ("" where none can be told), words that are no names."""

    sentences: tuple[str, ...]
    names: dict[str, str]
    no_names: frozenset[str]

    @property
    def text(self) -> str:
        space = "" if self.sentences[0][-1] == "。" else " "
        return space.join(self.sentences)


GERMAN = Sample(
    (
        "Dr. Clara Weber leitete von 1998 bis 2011 das Deutsche Museum in München.",
        "Am 3. März 2011 wurde z. B. die Ausstellung zur Raumfahrt eröffnet, die ca. 2 Mio. Besucher sah.",
        "Es ist ein Bau des 19. Jahrhunderts.",
        "Ihr Nachfolger, Prof. Johann Huber, kam von der Universität Heidelberg.",
        "Das Museum kaufte u. a. eine Dampfmaschine für 1.250,50 Euro im Jahr 2012.",
        "Wo steht sie heute?",
        "Sie steht im Keller.",
    ),
    {
        "Clara Weber": "person",
        "Johann Huber": "person",
        "Universität Heidelberg": "organisation",
        "Deutsche Museum": "organisation",
        "München": "",
    },
    frozenset({"Am", "Ihr", "Mio", "Dr", "B"}),
)
FRENCH = Sample(
    (
        "M. Dupont dirige depuis le 1er janvier 2005 l'Institut océanographique de Monaco.",
        "Son épouse, Mme Claire Martin, enseigne à l'Université de Nice.",
        "« Où sont les archives ? » demanda-t-elle.",
        "Elles se trouvent à Brest, cf. p. 12 du catalogue.",
        "En août 2019, le navire Tara a quitté Lorient pour l'Antarctique.",
        "L'équipage comptait env. 15 personnes.",
    ),
    {"Université de Nice": "organisation", "Brest": "", "Tara": "", "Lorient": "", "Monaco": ""},
    frozenset({"Son", "Elles", "En", "Où"}),
)
SPANISH = Sample(
    (
        "El Dr. Javier Ruiz fundó en 1987 el Instituto de Astrofísica de Canarias.",
        "¿Dónde está el telescopio?",
        "El Gran Telescopio Canarias se encuentra en La Palma, a 2.400 m de altura.",
        "¡Es enorme!",
        "La Sra. Elena Gómez lo dirige desde el 5 de mayo de 2016.",
        "EE. UU. y México financiaron una parte, p. ej. el espejo secundario.",
    ),
    {
        "Javier Ruiz": "person",
        "Elena Gómez": "person",
        "Instituto de Astrofísica de Canarias": "organisation",
        "Gran Telescopio Canarias": "",
        "México": "",
    },
    frozenset({"El", "Sra", "EE", "Dónde", "Es"}),
)
JAPANESE = Sample(
    (
        "山田花子は2003年に京都大学を卒業した。",
        "その後、株式会社島津製作所に入社し、質量分析装置を開発した。",
        "「装置は小さくなければならない。」と彼女は言った。",
        "2015年4月1日、山田花子は東京都の国立科学博物館で講演した。",
        "質量分析装置は現在、国立科学博物館に展示されている。",
    ),
    {
        "山田花子": "person",
        "京都大学": "organisation",
        "株式会社島津製作所": "organisation",
        "国立科学博物館": "organisation",
        "質量分析装置": "concept",
    },
    frozenset({"彼女", "その後", "現在", "館"}),
)
KOREAN = Sample(
    (
        "김민수 교수는 1995년에 서울대학교를 졸업했다.",
        "그는 2008년 5월 10일 한국과학기술원에서 인공지능 연구소를 세웠다.",
        "인공지능 연구소는 대전에 있다.",
        '"데이터가 중요합니다."라고 그는 말했다.',
        "인공지능 연구소의 학생들은 자율주행 자동차를 개발한다.",
        "자율주행 자동차는 서울에서 시험되었다.",
        "이번 대통령 선거는 조용했다.",
    ),
    {
        "김민수": "person",
        "서울대학교": "organisation",
        "한국과학기술원": "organisation",
        "인공지능 연구소": "organisation",
        "자율주행 자동차": "concept",
        "대전": "place",
        "서울": "place",
    },
    frozenset({"그", "이번", "김민수 교수", "교수"}),
)
INSTRUCTIONS = Sample(
    (
        "Bevor Sie das Gerät einschalten, öffnen Sie den Wasserhahn.",
        "Geben Sie den Entkalker in das Gerät.",
        "Wenn Sie Berlin besuchen, wählen Sie den Kundendienst in Berlin.",
        "Der Kundendienst in Berlin prüft das Gerät und den Wasserhahn.",
        "Drehen Sie den Wasserhahn zu, sobald Ihr Gerät leer ist.",
        "Die Details finden Sie in den nächsten Abschnitten.",
        "Die Einstellung können Sie über einen Schieberegler vornehmen.",
    ),
    {"Gerät": "", "Wasserhahn": "", "Berlin": ""},
    frozenset(
        {"Sie", "Ihr", "Ihr Gerät", "Bevor Sie das Gerät", "Geben Sie den Entkalker", "Wenn Sie Berlin"}
    ),
)
SAMPLES = {
    "German": GERMAN,
    "German instructions": INSTRUCTIONS,
    "French": FRENCH,
    "Spanish": SPANISH,
    "Japanese": JAPANESE,
    "Korean": KOREAN,
}


@pytest.mark.parametrize("language", SAMPLES)
def test_a_text_is_cut_into_its_sentences(language: str) -> None:
    sample = SAMPLES[language]
    assert [sample.text[start:end] for start, end in sentences(sample.text)] == list(sample.sentences)


@pytest.mark.parametrize("language", SAMPLES)
def test_its_names_are_entities_with_their_types(language: str) -> None:
    sample = SAMPLES[language]
    document = LoadedDocument("sample", "", sample.text, "text/plain")
    chunks = chunk(document, tokenizer=TiktokenTokenizer(), max_tokens=512, overlap=0)
    (found,) = extract(chunks, "")
    types = {each.name: each.type for each in found.entities}
    assert {name: type_ for name, type_ in sample.names.items() if type_} == {
        name: types.get(name, "is missing") for name, type_ in sample.names.items() if type_
    }
    assert sample.names.keys() <= types.keys()
    assert not sample.no_names & types.keys()


@pytest.mark.parametrize(
    ("title", "date"),
    [
        ("Bericht vom 3. März 2011", "2011-03-03"),
        ("Sitzung am 12. Dez. 2020", "2020-12-12"),
        ("Protokoll Mai 2019", "2019-05"),
        ("Compte rendu du 1er janvier 2005", "2005-01-01"),
        ("Réunion d'août 2019", "2019-08"),
        ("Rapport du 15 février 2020", "2020-02-15"),
        ("Bulletin de mars 2011", "2011-03"),
        ("Informe del 5 de mayo de 2016", "2016-05-05"),
        ("Acta de diciembre de 2001", "2001-12"),
        ("2015年4月1日の議事録", "2015-04-01"),
        ("2008년 5월 10일 회의록", "2008-05-10"),
        ("2008년 5월 보고서", "2008-05"),
        ("Notes of 7 March 2011", "2011-03-07"),
        # Of a day that the month does not have, month and year are left; figures alone may be anything.
        ("Vermerk vom 31. Februar 2011", "2011-02"),
        ("Minutes of February 31, 2011", "2011-02"),
        ("2011年2月31日の議事録", "2011-02"),
        ("2011년 2월 31일 회의록", "2011-02"),
        ("31.02.2011", ""),
        ("2011-02-31", ""),
        ("The rover of Mars 2020", ""),
        ("Kommai 2019", ""),
    ],
)
def test_a_date_in_a_title_is_read(title: str, date: str) -> None:
    assert find_date(title) == date
