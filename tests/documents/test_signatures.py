"""An excerpt of source code carries the lines of the class and the function that it is a part of, as they are written."""

from __future__ import annotations

import pytest

from leanrag_engine.adapters.tokenizer import TiktokenTokenizer
from leanrag_engine.core.model import LoadedDocument, is_code
from leanrag_engine.documents.chunking import chunk
from leanrag_engine.documents.signatures import find_signatures

PYTHON = '''class Pool(Base):
    """def fake():
class Fake:
    """
    @cached
    async def acquire(
        self, timeout: float = limit(1)
    ) -> Connection:
        # def neither():
        mark = here("def nor():")
        def inner(a):
            return mark
        return mark

    def release(self): ...
    mark = 1


def top():
    return mark
'''
C = """struct buf {
  int mark;
};
static int
read_it(struct buf *b, const char *c)
{
  char q = '{'; /* { */
  if (b->len) {
    return mark("}");
  }
  mark;
}
class A : public B {
  A() : x_(1), y_(2) { mark; }
  int get() const override {
    auto l = [&](int a) { return mark; };
  }
};
int mark;
"""
TYPESCRIPT = """export class Pool<T> {
  private x = { mark: 1 };
  async acquire(timeout = 1): Promise<Conn> {
    if (this.x) {
      items.forEach((i) => { mark(`{`); });
    }
  }
}
const make = async (a: string) => {
  return mark;
};
"""
RUST = """impl<'a> Pool<'a> {
    pub fn get(&self, c: char) -> Option<&'a str> {
        match c { '{' => None, Some(x) => { mark } }
    }
}
"""
GO = """package x

func (r *Reader) Read(p []byte) (int, error) {
	go func() {
		mark()
	}()
}
"""
JAVA = """public class A {
    @Override
    public void run(List<String> y)
            throws IOException {
        Foo f = new Foo() { int mark; };
    }
}
"""
ACQUIRE = (
    "class Pool(Base):\n    async def acquire(\n        self, timeout: float = limit(1)\n    ) -> Connection:"
)


@pytest.mark.parametrize(
    ("media_type", "text", "expected"),
    [
        ("text/x-python", PYTHON, [ACQUIRE, f"{ACQUIRE}\n        def inner(a):", ACQUIRE, "class Pool(Base):", "def top():"]),
        ("text/x-c", C, ["struct buf {", "static int\nread_it(struct buf *b, const char *c)\n{", "static int\nread_it(struct buf *b, const char *c)\n{",
                         "class A : public B {\n  A() : x_(1), y_(2) {", "class A : public B {\n  int get() const override {", ""]),
        ("text/x-typescript", TYPESCRIPT, ["export class Pool<T> {", "export class Pool<T> {\n  async acquire(timeout = 1): Promise<Conn> {", "const make = async (a: string) => {"]),
        ("text/x-rust", RUST, ["impl<'a> Pool<'a> {\n    pub fn get(&self, c: char) -> Option<&'a str> {"]),
        ("text/x-go", GO, ["func (r *Reader) Read(p []byte) (int, error) {"]),
        ("text/x-java", JAVA, ["public class A {\n    @Override\n    public void run(List<String> y)\n            throws IOException {"]),
        ("text/x-sql", "CREATE TABLE person (\n  mark int\n);\nmark", ["CREATE TABLE person (", ""]),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("text/") else "",
)  # fmt: skip
def test_a_line_of_code_knows_the_signatures_around_it(
    media_type: str, text: str, expected: list[str]
) -> None:
    signatures_at = find_signatures(text, media_type)
    places = [at for at in range(len(text)) if text.startswith("mark", at) and is_code(media_type)]
    assert [signatures_at(at) for at in places] == expected


def test_a_line_within_a_signature_knows_the_lines_before_it() -> None:
    assert find_signatures(C, "text/x-c")(C.index("read_it(")) == "static int"


def test_windows_of_code_hold_every_line_and_the_signatures_they_lie_within() -> None:
    body = "".join(f"        value_{n} = compute({n}, 'def fake():')  # a step\n" for n in range(60))
    text = f"import os\n\n\n# The pool.\nclass Pool(Base):\n    def acquire(self, timeout: float) -> Connection:\n{body}        return 1\n\n    def one(self): return 2\n"
    document = LoadedDocument("p", "pool.py", text, "text/x-python")
    chunks = chunk(document, tokenizer=TiktokenTokenizer(), max_tokens=512, overlap=0)
    windows = [(each.heading, part.quote(each)) for part in chunks for each in part.windows]
    assert " ".join(quoted for _, quoted in windows).split() == text.split()
    inside = [heading for heading, quoted in windows if quoted.startswith("        ")]
    assert len(inside) > 5
    assert set(inside) == {"class Pool(Base):\n    def acquire(self, timeout: float) -> Connection:"}
    assert {each.media_type for each in chunks} == {"text/x-python"}
