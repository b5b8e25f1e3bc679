"""Damaged robot files: what editors, programs and strangers do to XML."""

import copy
import random
import re
from xml.etree import ElementTree

PARTS = re.compile(rb'<[^<>]*>|"[^"]*"|[^<>"]+')
NUMBERS = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
NAMES = re.compile(rb'(?:name|link|joint|relative_to|type|attached_to)="([^"]*)"')

STRANGE = [
    *(b"nan", b"inf", b"-inf", b"1e999", b"-1e308", b"1e-320", b"0", b"-0.0", b"1,5", b"0x10"),
    *(b"", b" ", b"world", b"__model__", b"::", b"a::b", b"../../etc/passwd", b"package://x/y"),
    *(b"${x}", b"$(find x)", b"\x00", b"\xff", b"&amp;", b"&x;", b"<!--", b"]]>", b"1 2", b"1 2 3"),
    *("é☃".encode(), b"9" * 400, b"revolute", b"fixed", b"floating", b"planar", b"universal"),
]
"""Values that files should not have, and some that only belong elsewhere."""

HEADS = [
    b'<?xml version="1.0" encoding="utf-16"?>',
    b'<?xml version="1.0" encoding="latin-1"?>',
    b'<!DOCTYPE robot [<!ENTITY x "y">]>',
    b'<!DOCTYPE robot SYSTEM "http://127.0.0.1/x.dtd">',
    b"\xef\xbb\xbf",
    b"\xff\xfe",
]


def mutated(content, seed):
    """Return a file with one to four damages, the same for the same seed."""
    rng = random.Random(seed)
    # what is still XML comes further than what is not
    if rng.random() < 0.6:
        return _tree(content, rng)
    for _ in range(rng.randint(1, 4)):
        content = rng.choice(DAMAGES)(content, rng)
    return content


def _tree(content, rng):
    """Change elements, attributes and texts, and leave the file well-formed."""
    plain = content.replace(b"undeclared:", b"").decode(errors="ignore")
    root = ElementTree.fromstring(plain[plain.index("<") :])
    for _ in range(rng.choice([1, 1, 2, 4])):
        holders = [element for element in root.iter() if len(element)]
        everything = list(root.iter())
        holder = rng.choice(holders or [root])
        kind = rng.randrange(7)
        if kind == 0 and len(holder):
            holder.remove(rng.choice(list(holder)))
        elif kind == 1 and len(holder):
            holder.append(copy.deepcopy(rng.choice(list(holder))))
        elif kind == 2:
            rng.choice(everything).append(copy.deepcopy(rng.choice(everything[1:] or everything)))
        elif kind == 3:
            random_element = rng.choice(everything)
            random_element.tag = rng.choice(everything).tag
        else:
            _change_value(everything, rng)
    return ElementTree.tostring(root)


def _change_value(everything, rng):
    """Give an attribute or text a strange value, or that of another element."""
    element, other = rng.choice(everything), rng.choice(everything)
    values = [*other.attrib.values(), other.text or ""]
    value = rng.choice([*values, *(x.decode(errors="ignore") for x in rng.sample(STRANGE, 3))])
    value = "".join(c for c in value if c >= " ")
    keys = list(element.attrib)
    if keys and rng.random() < 0.8:
        element.set(rng.choice(keys), value)
    else:
        element.text = value


def _flip(content, rng):
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _cut(content, rng):
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:a] + content[min(b, a + 400) :] or b"x"


def _truncate(content, rng):
    return content[: rng.randrange(1, len(content) + 1)]


def _double(content, rng):
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[:b] + content[a : min(b, a + 2000)] + content[b:]


def _elements(content, rng):
    """Remove, repeat or move a whole tag or text."""
    parts = PARTS.findall(content)
    if len(parts) < 3:
        return content
    i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
    kind = rng.randrange(3)
    if kind == 0:
        del parts[i]
    elif kind == 1:
        parts.insert(j, parts[i])
    else:
        parts[i], parts[j] = parts[j], parts[i]
    return b"".join(parts)


def _replace(pattern):
    def damage(content, rng):
        found = list(pattern.finditer(content))
        if not found:
            return content
        for match in rng.sample(found, min(len(found), rng.randint(1, 3))):
            group = 1 if pattern.groups else 0
            a, b = match.span(group)
            if b <= len(content):
                content = content[:a] + rng.choice(STRANGE) + content[b:]
        return content

    return damage


def _swap_names(content, rng):
    """Give one element the name of another: cycles, second parents, unknown leaders."""
    found = [m for m in NAMES.finditer(content) if m.group(1)]
    if len(found) < 2:
        return content
    a, b = rng.sample(found, 2)
    return content[: a.start(1)] + b.group(1) + content[a.end(1) :]


def _head(content, rng):
    return rng.choice(HEADS) + content


DAMAGES = [
    *(_flip, _cut, _truncate, _double, _elements, _elements, _head),
    *(_replace(NUMBERS), _replace(NUMBERS), _replace(NAMES), _swap_names, _swap_names),
]
"""Ways to damage a file; the likelier ones several times."""
