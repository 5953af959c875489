"""Read exported chats and transcripts as turns: WhatsApp, Telegram, Signal, Slack, Discord, Zoom, IRC, plain dialogue. A
text is a chat by what it holds, not by its name. Whatever the export looks like, the result has one notation: a heading
``# 2026-01-06`` for each day, and paragraphs ``[12:03] Li Hua: text``, in which no word of the text is changed."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import lru_cache, partial
from html import unescape
from itertools import pairwise, product

from leanrag_engine.core.model import JsonObject
from leanrag_engine.core.text.language.sentences import is_conversation, is_speaker
from leanrag_engine.core.text.word_lists import read_words
from leanrag_engine.documents.dates import MONTH, month_number

from .reading import Reading

CHAT_MEDIA_TYPE = "text/x-chat"


# What makes a text a chat. Set by reading exports, logs and lists of fields; not tuned.
_CHAT_LINES = 400  # Lines that are not blank, from the top, by which a text is judged
_CHAT_TIMED = 0.3  # Least share of those lines that begin a turn with its time; the others continue one
_CHAT_LABELLED = 0.6  # Least share of lines that begin a turn without a time
_CHAT_FEWEST_TIMED = 2
_CHAT_FEWEST_LABELLED = 4
_CHAT_TURNS_PER_SPEAKER = 1.5  # Least average, unless every turn has a time

_TIME = r"(?:(?:午前|午後|오전|오후)\s?)?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\s?[AaPp]\.?\s?[Mm]\b\.?)?"
_MONTH = rf"(?i:{MONTH})\b\.?"
_WEEKDAYS = (
    "montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonnabend|sonntag"
    "|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|domingo"
)
_WEEKDAY = rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{{0,6}}|(?i:{_WEEKDAYS})|(?:Mo|Di|Mi|Do|Fr|Sa|So)\.)"
_DATE = (
    rf"(?:{_WEEKDAY},?\s)?"
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d{{2}})|(?:19|20)\d{{6}}"
    r"|\d{4}\.\s\d{1,2}\.\s\d{1,2}\.?|\d{4}[年년]\s?\d{1,2}[月월]\s?\d{1,2}[日일]"
    rf"|\d{{1,2}}(?:st|nd|rd|th|er)?\.?\s(?:de\s)?{_MONTH},?\s(?:del?\s)?(?:\d{{4}}|\(\d{{4}}\))"
    rf"|{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?,?\s\d{{4}})"
    r"(?:\s?[(（][月火水木金土日월화수목금토일][)）]|\s?[月火水木金土日]曜日|\s?[월화수목금토일]요일)?"
)
_WHEN = rf"(?:(?P<date>{_DATE})(?:,?\s|T|_|\sat\s|\sà\s|\sum\s|\sa\slas\s|,\s)?)?(?P<time>{_TIME})?(?:Z|\s?[+-]\d{{2}}:?\d{{2}})?"
_NAME = r"(?P<name>[^\s:：<>\[\]|][^:：<>\[\]|\t]{0,39}?)"

_STAMPED = (
    re.compile(rf"\[{_WHEN}\]\s*(?:\*\s)?{_NAME}\s?:(?:\s+|$)(?P<text>.*)"),
    re.compile(rf"{_WHEN}\s[-–—·]\s{_NAME}:(?:\s+|$)(?P<text>.*)"),
    re.compile(rf"{_WHEN},\s{_NAME}\s?:(?:\s+|$)(?P<text>.*)"),
    re.compile(rf"\[{_NAME}\]\s\[{_WHEN}\]\s(?P<text>.*)"),
    re.compile(rf"\[?{_WHEN}\]?\s+<[@+%&~ ]?(?P<name>[^<>\s][^<>]{{0,39}})>\s+(?P<text>.*)"),
    re.compile(rf"{_WHEN}\s+From\s+{_NAME}(?:\s+[Tt]o\s+[^:]{{1,40}})?\s?:\s*(?P<text>.*)"),
    re.compile(rf"{_WHEN}\t+{_NAME}[:\t]\s*(?P<text>.*)"),
    re.compile(rf"{_WHEN}\s+{_NAME}:\s+(?P<text>.*)"),
    re.compile(rf"{_NAME}\s?\[{_WHEN}\]\s?:\s*(?P<text>.*)"),
    re.compile(rf"{_NAME}\s?\({_WHEN}\)\s?:\s*(?P<text>.*)"),
    re.compile(rf"(?P<bold>\*\*|__){_NAME}(?P=bold),?\s+[\[(]?{_WHEN}[\])]?(?:\s?[:–—-])?\s+(?P<text>.*)"),
)
"""A turn on one line, with its time."""
_HEADED = (
    re.compile(rf"{_NAME},?\s+\[{_WHEN}\]:?\s*"),
    re.compile(rf"{_NAME}\s+(?:[-–—|·]\s+)?(?:APP\s+)?(?P<today>Today at |Yesterday at )?{_WHEN}\s*"),
    re.compile(rf"\[?{_WHEN}\]?\s+{_NAME}\s*"),
)
"""The head of a turn whose text is on the next lines."""
_NICKNAME = re.compile(
    rf"(?:\*\*|__)?(?P<name>[^\W\d_][\w.-]{{0,39}}?)(?:\*\*|__)?\s+[\[(]?{_TIME}[\])]?:?\s*"
)
"""The head of a turn by a nickname, which may begin with a small letter."""
_WORD = re.compile(r"(?<![^\s\"'(])[^\W\d_]+(?=[\s'’.,;:!?)]|$)|[?？](?=\s|$)")
_TALK = read_words("language", "first_person") | read_words("language", "second_person") | {"?", "？"}
_TALK -= {"us", "ma", "mon", "io"}  # Of these, programs write units
_LABELLED = re.compile(
    rf"(?:[-*•]\s+)?(?:\*\*|__)?{_NAME}\s?(?:\*\*|__)?(?::(?:\*\*|__)?(?:\s+|$)|：\s*)(?P<text>.*)"
)
_ROLE = re.compile(r"^([^\W\d_][^:()\n]{1,39}) \(([^:()\n]{1,60})\):\s")
"""*Li Hua (Firm, buyer): …* at the first turn of a speaker: the remark then begins what is said."""
_DAY = re.compile(
    rf"[\W_]{{0,80}}(?:(?:date|time|day|when|session|started|conversation started|log opened|day changed|datum|fecha|le|日時|日付|날짜|일시)\s{{0,3}}(?:on|at)?\s{{0,3}}[:=：]?\s{{0,3}})?{_WHEN}[\W_]{{0,80}}",
    re.IGNORECASE,
)
_BARE_DAY = rf"(?:\d{{1,2}}(?:st|nd|rd|th)?\.?\s{_MONTH}|{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?)"
_DAY_ALONE = re.compile(
    rf"(?:[\W_]*(?={_WEEKDAY})|\#+\s|[=*_–—-]{{2,}}\s?)(?P<date>(?:{_WEEKDAY},?\s)?{_BARE_DAY})[\W_]*"
)
_DATED = re.compile(rf"\[?{_DATE}")
_NAMED_DAY = re.compile(
    rf"[#=*–—-]{{1,9}}\s?(?:[^\W\d_]\S{{0,20}}\s{{1,9}}(?P<date>{_DATE})[\W_]*|Log closed .*)"
)
"""Days without their year (*Sat 13 July*, *--- 13 July ---*), and of a channel (*#tern 2025-11-18*), or the end of a log."""
_THREAD = re.compile(r"(={2,10}|#{2,10}|-{3,10})\s?([^\W\d_].{2,150}?)\s?\1")  # *== Which tripod? ==*
_HEADING = re.compile(r"\s*# [# \t]*([^\n]{1,120})")
_DULL_NAME = re.compile(
    r"(?i:conversation (?:of|between) .*|chat|messages?|exports?|results?|conversation|transcript|text|file|log|call|meeting|day|whatsapp|telegram|signal|slack|discord"
    r"|[\W\d_])*"
)
"""The name of a file that says nothing: *chat_export 2024*."""
_WHO = ("from", "username", "user", "author", "sender", "speaker", "role")
_WORDS = ("text", "content", "body", "message")
_LEVEL = re.compile(r"\b(?:INFO|WARN(?:ING)?|ERROR|DEBUG|TRACE|FATAL|CRITICAL|NOTICE|SEVERE)\b")
_EVENT = re.compile(rf"\[?{_WHEN}\]?\s*(?:[-–—*•]+\s+)?(?P<text>[^\s\d].*)")
"""What happened rather than what was said: *12:03 - Li Hua added you*."""
_MESSENGERS = (
    *({"ts", "type"}, {"date_unixtime", "type"}, {"timestamp", "author"}, {"date", "from", "type"}),
    *map(set, product(_WHO, ("ts", "time", "timestamp", "created_at"), _WORDS)),
)
"""Keys that each message has in an export of Slack, Telegram and Discord, in an older one of Telegram, and in those of other programs."""
_SAID = ("title", "text", "description", "question", "name", "value", "fileName")
"""Keys of the texts that come with a message, at any depth."""
_LINKED = re.compile(r"<[^<>|\s]+\|([^<>]+)>")  # A link with what it shows, as Slack writes it
SLACK_LISTS = ("users.json", "channels.json")  # Above the folders of an export's channels
_SLACK_ID = re.compile(
    rb'(?:(?<=")|(?:<|\\u003c)([@#]))([CUW][A-Z0-9]{5,20})(?(1)(?:\|[^<>"\\]{0,80})?(?:>|\\u003e)|(?="))'
)
"""The id of a person or channel, alone or mentioned in a text."""
_NUMBERS = re.compile(r"\d+")
_ISO_DAY = re.compile(r"(\d{4})-(\d\d)-\d\d")
_FORENOON = frozenset(["午前", "오전"])


@dataclass(slots=True)
class _ChatTurn:
    """One turn, or without a speaker an event or the title of a thread; ``date`` and ``time`` as written, "" if unknown."""

    speaker: str
    date: str
    time: str
    lines: list[str] = field(default_factory=list)
    opens_thread: bool = False


def read_chat(text: str, title: str = "") -> Reading | None:
    """Return the chat in ``text`` as turns beneath headings of days; None if ``text`` is no chat. Its title is its own (``title``, or
    that in its first line) and names the speakers and the days; the metadata ``date`` is the first day."""
    nicknames = _find_nicknames(text)
    timed = _is_timed(text, nicknames)
    if timed is None:
        return None
    turns = _turns(text.split("\n"), nicknames, timed=timed)
    dated = sum(_DATED.match(line) is not None for line in _first_lines(text))
    if not _is_chat([turn for turn in turns if turn.speaker], dated):
        return None
    note = [line.strip() for line in text.rstrip().rpartition("\n\n")[2].split("\n")]
    if not timed and turns[-1].lines[1:] and turns[-1].lines[-len(note) :] == note:
        del turns[-1].lines[-len(note) :]  # no turn of whom it stands below
        turns.append(_ChatTurn("", turns[-1].date, "", note))
    dates = [turn.date for turn in turns]
    day_first = _day_first(set(dates))
    days = _add_years([_iso(each, day_first=day_first) if each else "" for each in dates])
    body = "\n\n".join(_render(turns, days))
    known = sorted({day for day in days if day[:4].isdigit()})
    if not is_conversation(body[:20_000]):
        return None
    metadata = dict(zip(("date", "last_date"), known[:1] + known[1:][-1:], strict=False))
    first = _HEADING.match(text)
    own = first[1].strip(" #") if first and not title and not _DAY.fullmatch(first[1]) else title
    return Reading(body, name_chat(_title(turns, known), own), metadata=metadata, media_type=CHAT_MEDIA_TYPE)


def read_export(text: str) -> Reading | None:
    """Return the chat in the JSON of an export of Slack, Telegram or Discord; None for any other."""
    if not may_be_export(text):
        return None  # most JSON is none: parsing it would take time and many times its memory
    try:
        content = json.loads(text)
        messages = content.get("messages") if isinstance(content, dict) else content
        if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
            return None
        if '"user_profile"' in text:  # Who writes a message may be mentioned in another
            people = [
                {"id": it.get("user"), "creator": 1, "profile": it.get("user_profile")} for it in messages
            ]
            data, lists = json.dumps(messages).encode(), [json.dumps(people).encode()]
            messages = json.loads(name_slack_ids(data, lists))
        said = [each for each in messages if each.get("type") != "service"]
        if not any(all(keys <= each.keys() for each in said) for keys in _MESSENGERS):
            return None
        turns = [turn for turn in map(_read_message, messages) if turn.lines]
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    if not turns:
        return None
    days = sorted({turn.date for turn in turns})
    body = "\n\n".join(_render(turns, [turn.date for turn in turns]))
    named = [content, content.get("channel"), content.get("guild")] if isinstance(content, dict) else []
    own = ", ".join(str(each["name"]) for each in named if isinstance(each, dict) and each.get("name"))
    title = name_chat(_title(turns, days), own)
    metadata = dict(zip(("date", "last_date"), days[:1] + days[1:][-1:], strict=False))
    return Reading(body, title, metadata=metadata, media_type=CHAT_MEDIA_TYPE)


def may_be_export(text: str) -> bool:
    """Return whether the beginning of a JSON file has the keys of a messenger's messages."""
    if text.lstrip()[:1] != "[" and '"messages"' not in text:
        return False
    there = {key for key in set().union(*_MESSENGERS) if f'"{key}"' in text}
    return any(keys <= there for keys in _MESSENGERS)


def name_slack_ids(data: bytes, lists: Iterable[bytes]) -> bytes:
    """Return a day of an export of Slack with names for the ids in its ``lists`` of people and channels."""
    names = {id_: name for each in lists for id_, name in read_slack_list(each).items()}
    return _SLACK_ID.sub(
        lambda found: (found[1] or b"") + names[found[2]] if found[2] in names else found[0], data
    )


@lru_cache(maxsize=2)  # Each day of an export has the same two
def read_slack_list(data: bytes) -> Mapping[bytes, bytes]:
    """Return the names in a list of people or channels of Slack by their ids, as JSON writes them; none of any other file."""
    try:
        content = json.loads(data)
        rows = [each for each in content if isinstance(each, dict) and each.keys() & {"team_id", "creator"}]
    except (ValueError, TypeError, RecursionError):
        return {}
    longest = 100
    named = [(str(each.get("id")), _find_names([each.get("profile"), each])) for each in rows]
    return {
        id_.encode("ascii", "replace"): json.dumps(names[0][:longest])[1:-1].encode()
        for id_, names in named
        if names
    }


def _find_names(people: Iterable[object]) -> list[str]:
    records = [each for each in people if isinstance(each, dict)]
    keys = ("real_name", "nickname", "display_name", "name", "login")
    names = (each.get(key) for each in records for key in keys)
    return [name for name in names if name and isinstance(name, str)]


def _read_message(message: JsonObject) -> _ChatTurn:
    """Return what a message says, with the names and texts of what comes with it. Raises ``ValueError`` for a time that is none."""
    named = _find_names(map(message.get, ("user_profile", *_WHO)))
    named += [each for key in _WHO if isinstance(each := message.get(key), str)]
    said = next(filter(None, map(message.get, _WORDS)), None)
    if isinstance(said, list):  # Telegram: parts with marks
        said = "".join(str(each.get("text", "")) if isinstance(each, dict) else str(each) for each in said)
    keys = ("files", "attachments", "embeds", "poll", *(() if said else ("blocks",)))
    beside = [*map(message.get, keys), {"name": message.get("file_name")}]
    texts = [*([(said, False)] if isinstance(said, str) else []), *_find_texts(beside)]
    # A text that comes again is a copy for programs that show less; the values of fields may be equal.
    told = dict.fromkeys((text, at * is_value) for at, (text, is_value) in enumerate(texts, 1))
    whole = unescape(_LINKED.sub(r"\1", "\n".join(text for text, _ in told)))
    lines = [line.strip() for line in whole.split("\n") if line.strip()]
    stamp = str(next(filter(None, map(message.get, ("ts", "timestamp", "date", "time", "created_at")))))
    is_number = stamp.replace(".", "", 1).isdigit()
    when = datetime.fromtimestamp(float(stamp), UTC) if is_number else datetime.fromisoformat(stamp)
    return _ChatTurn(next(filter(None, named), "Unknown"), when.date().isoformat(), f"{when:%H:%M}", lines)


def _find_texts(value: object, key: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the texts of what comes with a message, at any depth, and whether each is the value of a field."""
    if isinstance(value, str):
        yield from [(value, key == "value")] * (key in _SAID)
    elif isinstance(value, list):
        for each in value:
            yield from _find_texts(each, key)
    elif isinstance(value, dict) and value.get("type") == "rich_text_section":
        parts = [each for each in value.get("elements", ()) if isinstance(each, dict)]
        yield "".join(str(each.get("text") or each.get("url") or "") for each in parts), False
    elif isinstance(value, dict):
        for name, each in value.items():
            if name != "value" or value.keys() & {"name", "title"}:  # a field, no button
                yield from _find_texts(each, name)


def _first_lines(text: str) -> list[str]:
    """Return the lines by which a text is judged, so that a long text of another kind costs nothing."""
    return [line.strip() for line in text[:40_000].split("\n") if line.strip()][:_CHAT_LINES]


def _find_nicknames(text: str) -> frozenset[str]:
    """Return the names in small letters that head turns (*nadia 10:02*, or in bold ``**nadia** 10:02``) or begin them (*10:02 nadia: …*).
    Speakers return; the entries of a timetable (*lunch 12:30*) hardly do. In bold with a date, any word is one."""
    lines = _first_lines(text)
    heads = [match["name"] if (match := _NICKNAME.fullmatch(line)) else "" for line in lines]
    names = [name for name, after in pairwise(heads) if name[:1].islower() and not after]
    stamped = [match for line in lines if (match := _match_timed(line, None)) and "text" in match.groupdict()]
    # Programs, too, write a time, a name in small letters and a text; but they do not say "I" or ask.
    talk = sum(not _TALK.isdisjoint(_WORD.findall(match["text"].lower())) for match in stamped)
    names += [match["name"] for match in stamped if 5 * talk >= len(stamped)]
    counts = Counter(names)
    few = len(counts) < counts.total() and 2 * len(counts) <= counts.total() + 2
    dated = {match["name"] for match in stamped if match.groupdict().get("bold") and match["date"]}
    return frozenset(counts if few else ()) | dated


def _is_timed(text: str, nicknames: frozenset[str]) -> bool | None:
    """Return whether turns begin with their time, or with the speaker's name alone; None if there are none."""
    lines = _first_lines(text)
    if not lines or 5 * sum(_LEVEL.search(line[:60]) is not None for line in lines) > len(lines):
        return None
    timed = sum(_match_timed(line, nicknames) is not None for line in lines)
    if timed >= _CHAT_FEWEST_TIMED and timed >= _CHAT_TIMED * len(lines):
        return True
    labelled = sum(_match_labelled(line) is not None for line in lines)
    enough = labelled >= _CHAT_FEWEST_LABELLED and labelled >= _CHAT_LABELLED * len(lines)
    return False if enough else None


def _match_timed(line: str, nicknames: frozenset[str] | None, longest_head: int = 80) -> re.Match[str] | None:
    """Return the turn with its time that begins on a line; without ``nicknames``, only one of a word in small letters."""
    opens = line[0].isdigit() or line[:2] in {"**", "__"} or line[:3].isalpha()
    stamped: Sequence[re.Pattern[str]] = _STAMPED if opens or "[" in line[:60] or "(" in line[:60] else ()
    headed: Sequence[re.Pattern[str]] = _HEADED if len(line) <= longest_head else ()
    for pattern in (*stamped, *headed):
        match = pattern.fullmatch(line)
        # A date alone does not head a turn whose text is on the next lines.
        dated = match and (match["time"] or (match["date"] and pattern in stamped))
        if match and dated and nicknames is None and match["name"].replace("-", "").isidentifier():
            return match if is_speaker(_speaker(match["name"], nick=True)) else None
        if match and dated and nicknames is not None and is_speaker(_turn_speaker(match, nicknames)):
            return match
    return None


def _match_labelled(line: str) -> re.Match[str] | None:
    match = _LABELLED.fullmatch(_ROLE.sub(r"\1: (\2) ", line))
    return match if match and is_speaker(_speaker(match["name"])) else None


def _speaker(name: str, *, nick: bool = False) -> str:
    name = name.strip(" \t~*_")
    return name[:1].upper() + name[1:] if nick else name


def _turn_speaker(match: re.Match[str], nicknames: frozenset[str]) -> str:
    """Return who speaks in a turn with its time. A nickname, as one in angle brackets, may be any word."""
    bare = _speaker(match["name"])
    return _speaker(bare, nick="<" in match.string or bare in nicknames)


# --- turns ---------------------------------------------------------------------------------


def _turns(lines: Sequence[str], nicknames: frozenset[str], *, timed: bool) -> list[_ChatTurn]:
    """Return the turns of a text; a line that begins no turn continues the one above it. Where turns bear dates, a line that is
    only a date or has only a time is part of what is said."""
    turns: list[_ChatTurn] = []
    day = hour = ""
    match_turn = partial(_match_timed, nicknames=nicknames) if timed else _match_labelled
    read = [(line, match_turn(line)) for line in filter(None, map(str.strip, lines))]
    own_dates = [bool(match.groupdict().get("date")) for _, match in read if match]
    dated = 2 * sum(own_dates) > len(own_dates)
    for line, match in read:
        groups = match.groupdict() if match else {}
        # *9:30 suits me* below a speaker is what that one says.
        event = timed and not (turns and turns[-1].speaker and not turns[-1].lines)
        if match and (groups.get("date") or not dated):
            day = groups.get("date") or day
            speaker = _turn_speaker(match, nicknames) if timed else _speaker(groups["name"])
            text = (groups.get("text") or "").strip()
            turns.append(_ChatTurn(speaker, day, groups.get("time") or hour, [text] if text else []))
        elif not dated and (found := _DAY.fullmatch(line)) and found["date"]:
            day, hour = found["date"], found["time"] or ""
        elif not dated and (found := _DAY_ALONE.fullmatch(line) or _NAMED_DAY.fullmatch(line)):
            day, hour = found["date"] or day, ""
            turns += [_ChatTurn("", day, "", [line])] * (found.re is _NAMED_DAY)
        elif event and (found := _EVENT.fullmatch(line)) and found["time"] and (found["date"] or not dated):
            day = found["date"] or day
            turns.append(_ChatTurn("", day, found["time"], [found["text"]]))
        elif found := _THREAD.fullmatch(line):
            turns.append(_ChatTurn("", "", "", [f"# {found[2]}"], opens_thread=True))
        elif turns:
            turns[-1].lines.append(line)
        else:
            day = found[0] if not dated and (found := re.search(rf"\b{_DATE}", line)) else ""
            turns.append(_ChatTurn("", day, "", [line]))
    return [turn for turn in turns if turn.lines]


def _is_chat(turns: Sequence[_ChatTurn], dated: int) -> bool:
    """Return whether speakers return; in a group of many (``dated``: turns with a date of their own, unlike those of an agenda) none need."""
    speakers = {turn.speaker for turn in turns}
    if all(turn.time for turn in turns):
        group = dated >= _CHAT_FEWEST_LABELLED and len(speakers) > 1
        return len(turns) >= _CHAT_FEWEST_TIMED and (group or 2 * len(speakers) <= len(turns) + 2)
    fewest = max(_CHAT_FEWEST_LABELLED, _CHAT_TURNS_PER_SPEAKER * len(speakers))
    return len(speakers) > 1 and len(turns) >= fewest


def _render(turns: Sequence[_ChatTurn], days: Sequence[str]) -> Iterator[str]:
    day, marks = "", "##" if any(each.opens_thread for each in turns) else "#"
    for turn, own in zip(turns, days, strict=True):
        if turn.opens_thread:
            day = ""
        elif own and own != day:
            day = own
            yield f"{marks} {day}"
        time = f"[{_write_time(turn.time)}] " if turn.time else ""
        label = f"{turn.speaker}: " if turn.speaker else ""
        yield "\n".join((f"{time}{label}{turn.lines[0]}", *turn.lines[1:]))


def _write_time(written: str) -> str:
    """Return a time in the notation of turns: *오후 9:03* and *9:03 p. m.* are 9:03 PM, other ones as they are written."""
    text = re.sub(r"(?i)\b([ap])\.\sm\.?$", lambda match: f"{match[1].upper()}M", " ".join(written.split()))
    half = text[:2]
    return f"{text[2:].strip()} {'AM' if half in _FORENOON else 'PM'}" if half.isalpha() else text


def _title(turns: Sequence[_ChatTurn], days: Sequence[str], most: int = 3) -> str:
    names = [name for name, _ in Counter(turn.speaker for turn in turns if turn.speaker).most_common()]
    shown = names if len(names) <= most + 1 else [*names[:most], f"{len(names) - most} others"]
    who = " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]
    when = f", {days[0]}" if days else ""
    return f"Conversation of {who}{when}{f' to {days[-1]}' if len(days) > 1 else ''}"


def name_chat(title: str, name: str) -> str:
    """Return the title of a chat with the chat's name, such as that of its file, unless it has one or this one says nothing."""
    if not title.startswith("Conversation of ") or _DULL_NAME.fullmatch(name):
        return title
    return f"{name} {title}" if name[-1] in ".?!…" else f"{name}: c{title[1:]}"


# --- days ----------------------------------------------------------------------------------


def _day_first(written: set[str]) -> bool | None:
    """Return whether days come before months in dates such as 03/04/23; None if nothing tells."""
    pairs = [
        (int(numbers[0]), int(numbers[1]))
        for each in written
        if len(numbers := _NUMBERS.findall(each)) > 2 and len(numbers[0]) <= 2  # noqa: PLR2004
    ]
    if any("." in each for each in written) or any(first > 12 for first, _ in pairs):  # noqa: PLR2004
        return True
    return False if any(second > 12 for _, second in pairs) else None  # noqa: PLR2004


def _iso(written: str, *, day_first: bool | None) -> str:
    """Return a date in ISO form if the order of day and month is certain; else as it is written."""
    month = re.search(_MONTH, written)
    numbers = [int(number) for number in _NUMBERS.findall(written)]
    if month and len(numbers) > 1:
        parts = (numbers[-1], month_number(month[0].rstrip(".").lower()), numbers[0])
    elif len(numbers) == 1:
        digits = f"{numbers[0]:08d}"
        parts = (int(digits[:4]), int(digits[4:6]), int(digits[6:]))
    elif numbers[0] > 31:  # noqa: PLR2004 - a year
        parts = (numbers[0], numbers[1], numbers[2])
    elif day_first is None:
        return written
    else:
        day, month_ = (numbers[0], numbers[1]) if day_first else (numbers[1], numbers[0])
        parts = (numbers[2] + 2000 * (numbers[2] < 100), month_, day)  # noqa: PLR2004
    try:
        return date(*parts).isoformat()
    except ValueError:
        return written


def _add_years(days: Sequence[str]) -> list[str]:
    """Return days with the year that the one before has, or where months go back the next; before the first year, that of the one after."""
    found = list(days)
    for step in (1, -1):
        year = month = 0
        for at in range(len(found))[::step]:
            name = re.search(_MONTH, found[at])
            if known := _ISO_DAY.fullmatch(found[at]):
                year, month = int(known[1]), int(known[2])
            elif year and name and len(_NUMBERS.findall(found[at])) == 1:
                own = month_number(name[0].rstrip(".").lower())
                year += step * (step * own < step * month)
                month, found[at] = own, _iso(f"{found[at]} {year}", day_first=True)
    return found
