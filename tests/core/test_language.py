"""What the engine knows of written language, against gold tables, hypothesis and SQLite's own full-text search."""

import itertools
import re
import sqlite3
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leanrag_engine.adapters.sql.dialect.fulltext_index import WORDS
from leanrag_engine.core.errors import InvalidInput
from leanrag_engine.core.text.cleaning import clean
from leanrag_engine.core.text.language import segmentation
from leanrag_engine.core.text.language.names import name_key
from leanrag_engine.core.text.language.parts_of_speech import is_english_word
from leanrag_engine.core.text.language.segmentation import japanese_morphemes
from leanrag_engine.core.text.language.sentences import PieceKind, pieces, sentences, whole_sentences
from leanrag_engine.core.text.language.words import (
    find_whole_words,
    index_terms,
    search_terms,
    search_text,
    whole_forms,
    word_count,
    words,
)
from leanrag_engine.core.text.scripts import (
    has_cjk,
    has_hangul,
    has_kana,
    is_japanese,
    is_mostly_english,
    is_mostly_latin,
)

anything = st.text(max_size=300) | st.text(
    alphabet="aB .!?\n\t\"'“”()[]{}*_`#-=1。！？「」知識グラフのé:;,", max_size=300
)


def split_sentences(text: str) -> list[str]:
    return [" ".join(text[start:end].split()) for start, end in sentences(text)]


# --- clean ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("a\r\nb\rc\x0cd\u2028e", "a\nb\nc\nd\ne"),
        ("tab\tstays, bell\x07 goes", "tab\tstays, bell goes"),
        ("zero\u200bwidth, soft\xadhyphen, bom\ufeff", "zerowidth, softhyphen, bom"),
        ("over\u202eride\u2066d\u2069", "overrided"),
        ("tags\U000e0041\U000e0042 and selector\ufe0f", "tags and selector"),
        ("non\xa0breaking\u2009thin", "non breaking thin"),
        ("e\u0301 is one letter", "\xe9 is one letter"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("ordinary text", "ordinary text"),
    ],
)
def test_cleaning_removes_invisible_characters_and_keeps_the_rest(dirty: str, expected: str) -> None:
    assert clean(dirty) == expected


@given(anything)
def test_cleaning_is_idempotent_and_its_result_can_be_stored(text: str) -> None:
    once = clean(text)
    assert clean(once) == once
    once.encode("utf-8")
    assert unicodedata.is_normalized("NFC", once)
    assert not any(unicodedata.category(character) == "Cc" and character not in "\n\t" for character in once)


# --- sentences -----------------------------------------------------------------------------

PROSE = {
    "Mr. Smith lives in the U.S. He met J. K. Rowling.": [
        "Mr. Smith lives in the U.S.",
        "He met J. K. Rowling.",
    ],
    "It costs 3.14 dollars, e.g. in Python 3.11. Yes!": [
        "It costs 3.14 dollars, e.g. in Python 3.11.",
        "Yes!",
    ],
    "See Fig. 3 and p. 5. Dr. No came, cf. Vol. 2.": ["See Fig. 3 and p. 5.", "Dr. No came, cf. Vol. 2."],
    'He said "no." Then he left.': ['He said "no."', "Then he left."],
    '"Bah!" said Scrooge. "Humbug!"': ['"Bah!" said Scrooge.', '"Humbug!"'],
    "The U.S. Army and Acme Inc. Records agreed.": ["The U.S. Army and Acme Inc. Records agreed."],
    "He has a Ph.D. in physics. She has one too.": ["He has a Ph.D. in physics.", "She has one too."],
    "What? Why! Well... maybe.": ["What?", "Why!", "Well... maybe."],
    "We saw yahoo.com and sys.path. They differ.": ["We saw yahoo.com and sys.path.", "They differ."],
    "这是第一句。这是第二句！“你好。”他说。": ["这是第一句。", "这是第二句！", "“你好。”", "他说。"],
    "「そうだ。」と言った。次の文です。": ["「そうだ。」と言った。", "次の文です。"],
    "": [],
    "   \n\n ": [],
    "***\n---": [],
}


@pytest.mark.parametrize("text", PROSE)
def test_sentences_end_where_a_reader_would_end_them(text: str) -> None:
    assert split_sentences(text) == PROSE[text]


def test_a_wrapped_line_continues_its_sentence_and_a_deliberate_break_ends_it() -> None:
    text = "A short title\nThis line is as long as the paragraph is wide, so that it is\nwrapped here and goes on."
    assert split_sentences(text) == [
        "A short title",
        "This line is as long as the paragraph is wide, so that it is wrapped here and goes on.",
    ]


def test_a_line_that_begins_with_a_role_continues_its_sentence_and_a_field_does_not() -> None:
    text = "-   The parameter ``handler`` of\n    :class:`~lamp.Process` is deprecated.\n\nBefore the fields\n:since: 2"
    assert split_sentences(text) == [
        "- The parameter ``handler`` of :class:`~lamp.Process` is deprecated.",
        "Before the fields",
        ":since: 2",
    ]


def test_headings_list_items_blank_lines_and_code_end_a_sentence() -> None:
    text = """Naming and binding
==================

The following constructs bind names

* formal parameters
* class definitions, which
  go on here
1. first
# Markdown heading
Text below it.

>>> x = 1
>>> print(x)

```python
def f(): return 1
```
| cell | cell |
"""
    assert split_sentences(text) == [
        "Naming and binding",
        "The following constructs bind names",
        "* formal parameters",
        "* class definitions, which go on here",
        "1. first",
        "# Markdown heading",
        "Text below it.",
        ">>> x = 1",
        ">>> print(x)",
        "def f(): return 1",
        "| cell | cell |",
    ]


def test_pieces_distinguish_headings_and_code_from_prose() -> None:
    text = (
        'The "with" statement\n*****\n\nIt wraps the execution of a block:\n\n'
        "   with open(path) as f:\n       read(f)\n\n2.1 系统架构\n大型语言模型很强。"
    )
    kinds = [(text[piece.start : piece.end], piece.kind) for piece in pieces(text)]
    assert kinds == [
        ('The "with" statement', PieceKind.HEADING),
        ("It wraps the execution of a block:", PieceKind.PROSE),
        ("with open(path) as f:", PieceKind.CODE),
        ("read(f)", PieceKind.CODE),
        ("2.1 系统架构", PieceKind.HEADING),
        ("大型语言模型很强。", PieceKind.PROSE),
    ]


@given(anything)
def test_spans_are_in_order_trimmed_and_leave_out_no_word(text: str) -> None:
    spans = sentences(text)
    for start, end in spans:
        assert start < end
        assert text[start:end] == text[start:end].strip()
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
    covered = {place for start, end in spans for place in range(start, end)}
    fences = [line for line in text.split("\n") if line.strip().startswith(("```", "~~~"))]
    left_out = [
        character for place, character in enumerate(text) if place not in covered and character.isalnum()
    ]
    assert len(left_out) <= sum(character.isalnum() for line in fences for character in line)


@given(anything, st.integers(0, 40))
def test_whole_sentences_keep_within_the_limit_and_never_cut_one(text: str, limit: int) -> None:
    kept = whole_sentences(text, limit)
    assert text.startswith(kept)
    assert word_count(kept) <= limit
    if kept and kept != text:
        assert len(kept) in {end for _, end in sentences(text)}


def test_a_sentence_longer_than_the_limit_is_left_out_whole() -> None:
    assert whole_sentences("One two three four. Five.", 3) == ""
    assert whole_sentences("One two. Three four. Five six.", 4) == "One two. Three four."


# --- scripts and words ---------------------------------------------------------------------


def test_scripts_are_distinguished() -> None:
    assert has_cjk("知识")
    assert has_cjk("ひらがな")
    assert has_cjk("한국어")
    assert not has_cjk("plain ascii")
    assert not has_cjk("été, война")
    assert has_kana("カタカナ")
    assert not has_kana("知识")
    assert has_hangul("서울")
    assert not has_hangul("知识")
    assert is_japanese("知識グラフを使う")
    assert not is_japanese("知识图谱,日本的“の”字在很长很长很长很长的中文句子里出现一次")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Scrooge's ghost DON'T", ["scrooge", "ghost", "don't"]),
        ("read_file", ["read_file", "read", "file"]),
        ("__init__", ["__init__", "init"]),
        ("GraphStore", ["graphstore", "graph", "store"]),
        ("C++ and C# 3.14", ["c++", "and", "c#", "3.14"]),
        ("知识图谱与语义聚合", ["知识", "图谱", "与", "语义", "聚合"]),
        ("機械学習を用いた", ["機械", "学習", "を", "用いる", "た"]),
        ("서울 시청에서", ["서울", "시청에서"]),
        ("Émile Été", ["émile", "été"]),
    ],
)
def test_words_are_whole_segmented_and_in_lower_case(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_word_count_counts_two_cjk_characters_as_one_word() -> None:
    assert word_count("three plain words") == 3
    assert word_count("知识图谱") == 2
    assert word_count("LeanRAG 的架构") == 3


def test_long_japanese_text_is_segmented_whole_and_by_many_threads_at_once() -> None:
    sentence = "東京で知識グラフを構築する。"
    long = sentence * 2_000  # over 80 kB: more than Sudachi takes at once
    assert "".join(morpheme.surface() for morpheme in japanese_morphemes(long)) == long
    with ThreadPoolExecutor(4) as pool:
        assert len({tuple(found) for found in pool.map(words, [sentence] * 40)}) == 1


# --- full-text search ----------------------------------------------------------------------


def finds(document: str, query: str, how: str = " AND ") -> bool:
    """Whether SQLite's porter tokenizer finds every term of the query in the indexed document, or any."""
    store = sqlite3.connect(":memory:")
    try:
        store.execute(f"create virtual table page using fts5(body, tokenize='{WORDS}')")
        store.execute("insert into page values (?)", (search_text(document),))
        match = how.join(f'"{term}"' for term in index_terms(query))
        return bool(store.execute("select 1 from page where page match ?", (match,)).fetchall())
    finally:
        store.close()


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("The generators yield values.", "generator"),
        ("LeanRAG 通过语义聚合构建知识图谱,并检索最低公共祖先。", "最低公共祖先"),
        ("知识图谱检索", "知识图谱"),
        ("南京市长江大桥", "长江大桥"),
        ("機械学習を用いた知識グラフの構築方法", "知識グラフ"),
        ("機械学習を用いた", "機械学習とは何ですか"),
        ("機械学習の応用について書く。", "機械学習"),
        ("Programs in C++ and C# on .NET", "C++"),
        ("Programs in C++ and C# on .NET", "C# .NET"),
        ("the class GraphStore opens files", "graph store"),
        ("call read_file() first", "read_file"),
        ("서울에서 열린 회의", "서울"),
        ("Scrooge's nephew", "scrooge"),
        ("Émile was here", "emile"),
        ("Emile was here", "Émile"),
        ("the option --ws-max-size", "--ws-max-size"),
        ("the option --ws-max-size", "ws max size"),
        ("the option --ws-max-size", "ws_max_size"),
        ("set max_size = 3", "max_size"),
        ("set max_size = 3", "maxSize"),
        ("set maxSize = 3", "max-size"),
        ("class HTTPTransport:", "HTTPTransport"),
        ("class HTTPTransport:", "http transport"),
        ("class HTTPTransport:", "http_transport"),
        ("an e-mail", "email"),
        ("open file.py", "file.py"),
        ("call pkg.mod.func(x)", "pkg.mod.func"),
        ("call pkg.mod.func(x)", "mod.func"),
        ("see src/pkg/_client.py", "pkg/_client.py"),
        ("write to jane.doe@example.com!", "jane.doe@example.com"),
        ("since v0.34.0.", "0.34.0"),
        ("a price of 4,200 pounds", "4200"),
        ("die Straße", "strasse"),
        ("die STRASSE", "Straße"),
        ("by Ørsted", "orsted"),
        ("Пётр зажёг лампу", "петр зажег"),
        ("Петр зажег лампу", "Пётр"),
        ("שָׁלוֹם לכולם", "שלום"),
        ("בְּרֵאשִׁ֖ית ברא", "בראשית"),
        ("كَتَبَ الرسالة", "كتب"),
        ("a \ufb01le of １２ pages", "file 12"),
    ],
)
def test_a_query_finds_what_was_indexed(document: str, query: str) -> None:
    assert finds(document, query)


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("set maxsize = 3", "MAX_SIZE"),
        ("class httptransport:", "HTTPTransport"),
        ("an email", "e-mail"),
        ("a price of 4200 pounds", "4,200"),
        ("since 0.34.0.", "v0.34.0"),
    ],
)
def test_a_name_in_parts_finds_it_written_as_one_word(document: str, query: str) -> None:
    assert finds(document, query, " OR ")


@pytest.mark.parametrize(
    ("document", "query"),
    [
        ("set the size to its max", "max_size"),
        ("the func of a mod", "mod.func"),
        ("since 0.3.40", "v0.34.0"),
        ("a price of 4, 200 times", "4200"),
    ],
)
def test_a_name_of_several_parts_is_found_only_where_it_stands_whole(document: str, query: str) -> None:
    assert not finds(document, query)


@pytest.mark.parametrize("query", ["C#", "C", "知识", "祖父", "yield"])
def test_a_query_does_not_find_what_is_not_there(query: str) -> None:
    assert not finds("Programs in C++ for 公共祖先", query) or query == "C"


@given(anything)
def test_no_query_breaks_the_syntax_of_the_index(query: str) -> None:
    terms = index_terms(clean(query), limit=8)
    assert len(terms) <= 8
    assert len(set(terms)) == len(terms)
    assert not any('"' in term or not term or term != term.strip() or len(term.split()) > 1 for term in terms)
    if terms:
        finds("anything at all", clean(query))


def test_stopwords_are_removed_unless_nothing_else_remains() -> None:
    assert search_terms("What is the lowest common ancestor of a tree?") == [
        "lowest",
        "common",
        "ancestor",
        "tree",
    ]
    assert search_terms("to be or not to be") == ["to", "be", "or", "not"]
    assert search_terms("最低公共祖先是什么") == ["最低", "公共", "祖先"]
    assert search_terms("") == []


def test_a_cut_that_depends_on_its_context_hides_no_word_of_two_characters() -> None:
    indexed = search_text("知识图谱检索").split()
    assert {"知识", "图谱", "检索"} <= set(indexed)


def test_plain_text_is_indexed_as_it_is() -> None:
    plain = "Nothing special in this line, whatever it says."
    assert search_text(plain) is plain


# --- names ---------------------------------------------------------------------------------

ONE = [
    ("Context Managers", "context manager", "the context manager", "CONTEXT MANAGERS", "context-managers"),
    ("Scrooge", "Scrooge's", "“Scrooge”", " scrooge "),
    ("U.S. Army", "US Army", "the U.S. Army"),
    ("J. K. Rowling", "J.K. Rowling", "JK Rowling"),
    ("__init__", "__init__()", '"__init__()"'),
    ("object.__getattr__", "object.__getattr__(self, name)"),
    ("Beyoncé", "Beyonce"),
    ("A Christmas Carol", "Christmas Carol"),
    ("snake_case", "snake case"),
    ("Johnson & Johnson", "Johnson and Johnson"),
    ("1,000 words", "1000 words"),
    ("Ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
    ("LLMs", "LLM"),
    ("KGs", "KG"),
    ("St. Mary's Church", "St Mary’s Church"),
    ("Москва", "Москвы", "Москве", "Москву", "Москвой"),
    ("Андрей Захаров", "Андрея Захарова", "Андрею Захарову", "Андреем Захаровым"),
    ("Мария", "Марии", "Марию", "Марией"),
    ("Невский проспект", "Невского проспекта", "Невском проспекте"),
]
APART = [
    ("__init__", "init"),
    ("_private", "private"),
    ("C", "C++", "C#", "c*"),
    (".NET", "net"),
    ("Disney", "Disney+"),
    ("os.path", "os path"),
    ("dict.key", "dict.keys"),
    ("--verbose", "verbose"),
    ("+=", "-=", "=", "**", "*"),
    ("William", "Williams"),
    ("len", "lens"),
    ("http", "https"),
    ("Python 3.1", "Python 3.11", "Python 31"),
    ("glas", "glass"),
    ("A. Smith", "J. Smith", "Smith"),
    ("й", "и"),
    ("が", "か"),
    ("Китай", "кит", "Китеж"),
    ("Захар", "Захаров"),
]
SINGULAR = {
    "classes": "class", "glass": "glass", "series": "series", "queries": "query", "boxes": "box", "buses": "bus",
    "cases": "case", "caches": "cache", "movies": "movie", "heroes": "hero", "analyses": "analysis", "analysis": "analysis",
    "indices": "index", "virus": "virus", "viruses": "virus", "wives": "wife", "responses": "response", "churches": "church",
    "men": "man", "ties": "tie", "gas": "gas", "ss": "ss", "parentheses": "parenthesis", "news": "news",
}  # fmt: skip


@pytest.mark.parametrize("names", ONE)
def test_forms_of_one_name_have_one_key(names: tuple[str, ...]) -> None:
    assert len({name_key(name) for name in names}) == 1


@pytest.mark.parametrize("names", APART)
def test_names_that_differ_in_meaning_have_different_keys(names: tuple[str, ...]) -> None:
    assert len({name_key(name) for name in names}) == len(names)


def test_words_without_spaces_are_looked_up_as_they_are_written() -> None:
    assert find_whole_words("コーヒーの値段はいくらですか") == ["コーヒー", "値段"]
    assert find_whole_words("申込書はカタカナで") == ["申込", "書", "カタカナ"]
    assert find_whole_words("负责人是谁") == ["负责人"]
    assert find_whole_words("24小时内最多可以服用多少") == ["24", "小时", "最多", "服用"]
    assert whole_forms("申込書")[:2] == [["申込書"], ["申込", "込書"]]


def test_marks_on_letters_are_part_of_a_word() -> None:
    names = ["सीता", "सूत", "सोता", "ปู", "ปี", "ป่า", "ป้า"]
    assert len({name_key(name) for name in names}) == len(names)
    assert words("सीता ने बजट तय किया") == ["सीता", "ने", "बजट", "तय", "किया"]
    assert search_terms("सीता कहाँ?") == ["सीता", "कहाँ"]
    assert find_whole_words("ราคาปู?") == ["ราคาปู"]
    assert whole_forms("सीता।") == [["सीता"]]
    assert name_key("שָׁלוֹם") == name_key("שלום")


@pytest.mark.parametrize("plural", SINGULAR)
def test_the_last_word_is_taken_in_the_singular(plural: str) -> None:
    assert name_key(plural) == SINGULAR[plural]
    assert name_key(f"big {plural}") == f"big {SINGULAR[plural]}"


@given(st.text(max_size=60))
def test_every_name_has_a_key_whatever_its_case_and_spacing(name: str) -> None:
    key = name_key(name)
    blank = name.replace("\x00", " ")  # a NUL counts as a space
    assert (key == "") == (not blank.split() or not unicodedata.normalize("NFKC", blank).split())
    assert name_key(f"  {name} ") == key


@given(st.text(alphabet="abcXYZ_.+#'’- ()sthe", max_size=40))
def test_the_case_of_a_name_does_not_count(name: str) -> None:
    assert name_key(name.upper()) == name_key(name.lower())


@pytest.mark.parametrize(
    ("text", "latin"),
    [
        ("", True), ("1811 – 42 %", True), ("The lighthouse.", True), ("Der Leuchtturm von Überlingen", True),
        ("Ngọn hải đăng ở Việt Nam", True), ("𝓍 and α are variables of the λ-calculus", True),
        ("Маяк на скале", False), ("灯台は岬にある。", False), ("知识图谱的层次结构", False), ("등대는 곶에 있다", False),
        ("منارة على الساحل", False), ("Φάρος στη θάλασσα", False), ("प्रकाशस्तंभ तट पर है", False),
        ("函数 getAttributeValue 返回元素的属性值。", False), ("The word 灯台 means lighthouse in Japanese", True),
    ],
)  # fmt: skip
def test_the_script_of_most_words_is_recognized(text: str, latin: bool) -> None:
    assert is_mostly_latin([text]) is latin


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("", True), ("Skerryvore 1844", True), ("The lighthouse of El Dorado was lit by the keeper.", True),
        ("def walk(tree): return tree", True), ("Der Leuchtturm steht auf dem Felsen und die Lampe ist alt.", False),
        ("Le phare est sur la falaise et les bateaux le voient.", False),
        ("El faro está en la costa y los barcos lo ven.", False), ("Il faro di pietra è sulla costa.", False),
        ("De vuurtoren is van steen en het licht was niet aan.", False), ("Latarnia stoi na skale i nie świeci się.", False),
        ("Маяк на скале", False), ("知识图谱的层次结构", False),
    ],
)  # fmt: skip
def test_english_is_told_from_other_languages(text: str, english: bool) -> None:
    assert is_mostly_english([text]) is english


def test_the_script_of_most_of_many_texts_counts() -> None:
    assert is_mostly_latin(["The lighthouse was lit."] * 6000 + ["Маяк зажгли вечером."] * 3000)
    assert not is_mostly_latin(["The lighthouse was lit."] * 3000 + ["Маяк зажгли вечером снова."] * 6000)


@pytest.fixture
def without_japanese(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An environment without the extra [ja]."""
    monkeypatch.setattr(segmentation, "find_spec", lambda _: None)
    segmentation.has_japanese.cache_clear()
    yield
    segmentation.has_japanese.cache_clear()


@pytest.mark.usefixtures("without_japanese")
def test_without_the_extra_japanese_documents_alone_are_refused_with_the_command_that_installs_it() -> None:
    segmentation.require_japanese("The lighthouse (灯台の守) was lit at dusk by the keeper and his daughter.")
    segmentation.require_japanese("知识图谱的层次结构")
    with pytest.raises(InvalidInput, match=re.escape("leanrag-mcp[ja]")):
        segmentation.require_japanese("灯台の守は夕方に火を灯した。")


@pytest.mark.usefixtures("without_japanese")
def test_without_the_extra_japanese_words_in_other_texts_are_found_by_script() -> None:
    assert {"灯台", "ガラス"} <= {*words("The keeper said 灯台のガラス, twice.")}
    assert "ガラス" in search_text("The keeper said 灯台のガラス, twice.").split()
    assert "ガラス" in search_terms("ガラス")


def test_an_english_word_is_known_in_all_its_forms_and_a_misspelt_one_is_not() -> None:
    known = "eight eighth forty hundred refunds refunding stopped busiest cities emailed websites charger boxes planning quickly"
    assert [word for word in known.split() if not is_english_word(word)] == []
    wrong = "eigth connecton electircs refnds ing webiste recieve adress mailles"
    assert [word for word in wrong.split() if is_english_word(word)] == []
