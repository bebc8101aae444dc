from __future__ import annotations

import json
import random
import time
from typing import Any

import pytest

from veo_cli import json_located, yaml12
from veo_cli.located import MAX_DEPTH, SyntaxFault, plain_value


def values(text: str) -> list[Any]:
    return [None if node is None else plain_value(node) for node in yaml12.read_documents(text)]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("NO", "NO"), ("true", True), ("False", False),
        ("null", None), ("~", None), ("", None), ("5", 5), ("-3", -3), ("+2", 2), ("0", 0),
        ("010", "010"), ("00", "00"), ("1_2", "1_2"), ("1:30", "1:30"), ("12:30:45", "12:30:45"),
        ("1e3", 1000.0), ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("-1.5E-2", -0.015), ("01.5", "01.5"),
        ("0x1F", 31), ("0o17", 15), ("0b11", "0b11"), (".inf", float("inf")), ("-.INF", float("-inf")),
        ("2024-01-01", "2024-01-01"), ("'5'", "5"), ('"true"', "true"), ("1 000", "1 000"), ("=", "="),
        ("9" * 500, "9" * 500),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema(written: str, value: Any) -> None:
    assert values(f"a: {written}\n") == [{"a": value}]


def test_not_a_number_is_a_number() -> None:
    (document,) = values("a: .NaN")
    assert document["a"] != document["a"]


def test_documents_and_positions() -> None:
    first, second = yaml12.read_documents("# comment\na: 1\n---\nb:\n  - x\n  - {c: 2}\n")
    assert (first.line, first.column) == (2, 1)
    (key, items) = second.entries[0]
    assert (key.line, key.column) == (4, 1)
    assert [(item.line, item.column) for item in items.items] == [(5, 5), (6, 5)]


def test_columns_count_characters_not_bytes() -> None:
    (node,) = yaml12.read_documents("a: {夜晚: 1, b: 2}")
    inner = node.entries[0][1]
    assert inner.entries[1][0].column == 12


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a: 1\n\tb: 2", (2, 1), "tab"),
        ("a: 1\nb:\n  c: 1\n  c: 2", (4, 3), "c is given twice"),
        ("a: b: c", (1, 5), "quotes around a text that has a colon"),
        ("a: @b", (1, 4), "quotes around the text"),
        ('a: "\\ud800"', (1, 7), "write the character itself"),
        ('a: "b', (1, 6), "close the quotes"),
        ("a: *b", (1, 4), "refers to nothing"),
        ("a: &b [*b]", (1, 8), "refers to what it stands in"),
        ("a: !!python/name:os.system x", (1, 4), "is refused"),
        ("a: !custom x", (1, 4), "is refused"),
        ("a: !!int 3", (1, 4), "is refused"),
        ("<<: {a: 1}", (1, 1), "merge key"),
        ("[1, 2]: 3", (1, 1), "plain text"),
        ("a: \x07", (1, 4), "control character"),
    ],
)
def test_faults_say_where_and_what_helps(text: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(SyntaxFault) as caught:
        yaml12.read_documents(text)
    error = caught.value
    assert (error.line, error.column) == place
    assert words in f"{error.what} {error.why} {error.fix}"


def test_string_tag_is_harmless() -> None:
    assert values("a: !!str 5") == [{"a": "5"}]


def test_small_aliases_are_values() -> None:
    assert values("a: &x {k: 1}\nb: *x") == [{"a": {"k": 1}, "b": {"k": 1}}]


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "\n".join(f"{chr(98 + i)}: &{chr(98 + i)} [" + f"*{chr(97 + i)}," * 9 + "]" for i in range(20)),
        "[" * 100_000,
        "{a: " * 5_000,
        "- " * 3_000 + "x",
        "a: " + "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2),
    ],
    ids=["aliases", "brackets", "braces", "dashes", "nested"],
)
def test_bombs_are_refused_at_once(text: str) -> None:
    before = time.process_time()
    with pytest.raises(SyntaxFault):
        yaml12.read_documents(text)
    assert time.process_time() - before < 2


def test_any_json_reads_the_same() -> None:
    generator = random.Random(4)

    def anything(depth: int) -> Any:
        kind = generator.randrange(7 if depth < 4 else 5)
        if kind == 5:
            return [anything(depth + 1) for _ in range(generator.randrange(4))]
        if kind == 6:
            return {random_text(): anything(depth + 1) for _ in range(generator.randrange(4))}
        return [
            None,
            True,
            generator.randrange(-(10**12), 10**12),
            generator.uniform(-1e9, 1e9),
            random_text(),
        ][kind]

    def random_text() -> str:
        return "".join(generator.choice('ab "\\/\n\té夜🎈:{}[],#') for _ in range(generator.randrange(8)))

    for _ in range(200):
        value = anything(0)
        text = json.dumps(
            value, indent=generator.choice([None, 2, "\t"]), ensure_ascii=generator.random() < 0.5
        )
        (node,) = json_located.read_documents(text)
        assert node is not None
        assert plain_value(node) == value


def test_json_lines() -> None:
    nodes = json_located.read_documents('{"a": 1}\n{"a": 2}\n')
    assert [plain_value(node) for node in nodes if node is not None] == [{"a": 1}, {"a": 2}]
    assert nodes[1].line == 2


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ('{"a": 1,}', (1, 9), "delete the comma"),
        ('{"a": 1,\n "a": 2}', (2, 2), "given twice"),
        ("{'a': 1}", (1, 2), "double quotes"),
        ('{"a" 1}', (1, 6), "colon is missing"),
        ('["a" "b"]', (1, 6), "comma or ]"),
        ('{"a":', (1, 6), "ends too early"),
        ('{"a": 01}', (1, 8), "comma or }"),
        ('{"a": "x', (1, 7), "Unterminated"),
        ("[" * 100_000, (1, MAX_DEPTH + 2), "deep"),
    ],
)
def test_json_faults(text: str, place: tuple[int, int], words: str) -> None:
    with pytest.raises(SyntaxFault) as caught:
        json_located.read_documents(text)
    assert (caught.value.line, caught.value.column) == place
    assert words in f"{caught.value.what} {caught.value.why} {caught.value.fix}"
