"""Damaged text files: what editors, programs and strangers do to words and numbers."""

import random
import re

WORDS = re.compile(rb'"[^"\n]*"|[{}]|[^\s{}"]+|\n')
NUMBER = re.compile(rb"^-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?$")

STRANGE = [
    *(b"nan", b"inf", b"-inf", b"1e999", b"-1e308", b"1e-320", b"0", b"-0.0", b"1,5", b"0x10"),
    *(b"-1", b"1.5", b"99999999999", b"1_0", b'""', b'"', b"{", b"}", b"{ {", b"} }", b"#"),
    *(b"\x00", b"\xff", "é☃".encode(), b"9" * 400, b"Name", b"Mass", b"Branch", b"Branch {"),
    *(b'"../../etc/passwd"', b'"/etc/passwd"', b"RevoluteLink {", b"ZScrewTxLink { }", b"world"),
]
"""Words that files should not have, and some that only belong elsewhere."""


def mutated_text(content, seed):
    """Return a file with one to four damages, the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(rng.choice([1, 1, 2, 4])):
        content = rng.choice(DAMAGES)(content, rng)
    return content


def _words(content, rng):
    """Remove, repeat, exchange or replace words."""
    parts = WORDS.findall(content)
    if len(parts) < 3:
        return content
    i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
    kind = rng.randrange(4)
    if kind == 0:
        del parts[i]
    elif kind == 1:
        parts.insert(j, parts[i])
    elif kind == 2:
        parts[i], parts[j] = parts[j], parts[i]
    else:
        parts[i] = rng.choice(STRANGE)
    return b" ".join(parts)


def _numbers(content, rng):
    """Replace some numbers."""
    parts = WORDS.findall(content)
    places = [i for i, part in enumerate(parts) if NUMBER.match(part)]
    for i in rng.sample(places, min(len(places), rng.randint(1, 3))):
        factor = rng.choice([b"-", b"1e9", b"0.0"])
        parts[i] = rng.choice([rng.choice(STRANGE), factor + parts[i].lstrip(b"-")])
    return b" ".join(parts)


def _lines(content, rng):
    """Remove, repeat or move a line."""
    lines = content.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    line = lines.pop(i) if rng.random() < 0.7 else lines[i]
    if rng.random() < 0.6:
        lines.insert(j, line)
    return b"\n".join(lines)


def _bytes(content, rng):
    data = bytearray(content or b"x")
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _pieces(content, rng):
    """Cut out, repeat or cut off a piece."""
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    kind = rng.randrange(3)
    if kind == 0:
        return content[:a] + content[min(b, a + 400) :]
    if kind == 1:
        return content[:b] + content[a : min(b, a + 2000)] + content[b:]
    return content[:b]


DAMAGES = [_words, _words, _words, _numbers, _numbers, _lines, _lines, _bytes, _pieces]
"""Ways to damage a file; the likelier ones several times."""
