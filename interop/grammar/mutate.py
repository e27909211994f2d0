#!/usr/bin/env python3
"""Makes mutants of CQL statements, and compares two parsers' verdicts on them.

mutate.py COUNT SEED FILE...            statements of data-driven test files with a few tokens
                                        changed, each ended by a NUL
mutate.py keywords FILE                 statements with every keyword of keyword.rs in every place
                                        where a name may stand, each ended by a NUL
mutate.py compare MUTANTS OURS THEIRS   verdicts of both parsers, one a line; exit status 1 if an
                                        unexplained one differs
"""
import random
import re
import sys

TOKEN = re.compile(
    r"\s+|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\$\$.*?\$\$|[A-Za-z][A-Za-z0-9_]*|[0-9][0-9a-zA-Z.\-]*"
    r"|\+=|-=|<=|>=|!=|\.\.|.", re.S)
COMMON = (
    "( ) , . [ ] { } : ? = < > + - * / % ; a b f 1 -1 1.5 'x' AS IN AND int text list NULL key ttl "
    "count token cast "
    'json distinct exists .. = true writetime 1d 0xab with is not P1D "Q" set map < > frozen if '
    'using'
).split()
# Differences that testdata/cql/differences.txt explains: our verdict, the other parser's message,
# and the shape of the text.
EXPLAINED = (
    ("reject", None, re.compile(r"[\w)\]}?$'\"]\s*-(\d|nan|infinity|p\d|pt\d)", re.I)),
    ("reject", re.compile("<EOF>' expecting set null"), re.compile(r"(--|//)[^\n]*$")),
    ("reject", None, re.compile(r"\b(between|bypass|timeout|logged)\b", re.I)),
    ("reject", re.compile(r"input 'expr\('|input '\('"), re.compile(r"\bexpr\s*\(", re.I)),
    ("reject", re.compile("input ','"), re.compile(r"\b(add|drop)\b.*,", re.I | re.S)),
    ("accept", None, re.compile(r"\bupdate\b.*\bset\b.*=\s*\S+\s*[0-9]", re.I | re.S)),
    ("accept", None, re.compile(r"vector\s*<[^,]*,\s*-\s*[0-9]", re.I)),
    # After `-i` Cassandra's lexer insists on infinity, and after eight hexadecimal digits and `-`,
    # on a UUID.
    ("reject", re.compile("mismatched character"), re.compile(r"-\s*[in]|[0-9a-f]{8}\s*-", re.I)),
    ("accept", None, re.compile(r"-(infinity|nan)\w", re.I)),
    ("reject", re.compile("mismatched character"), re.compile(r"[0-9]d[a-z]", re.I)),
    ("reject", None, re.compile(r"-0x", re.I)),
    ("", None, re.compile(r"\)\s*as\s+(\S+\s+)?as\b", re.I)),
)


def statements(paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for case in re.split(r"\n\n+", file.read()):
                head, bar, output = case.partition("\n----\n")
                if bar and not output.startswith("error: "):
                    yield "\n".join(line for line in head.splitlines() if not line.startswith("#"))


def mutants(count, seed, paths):
    chance = random.Random(seed)
    originals = [TOKEN.findall(statement) for statement in statements(paths)]
    vocabulary = sorted({token for tokens in originals for token in tokens})
    for _ in range(count):
        tokens = list(chance.choice(originals))
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            if not tokens:
                break
            at, other, kind = (
                chance.randrange(len(tokens)),
                chance.randrange(len(tokens)),
                chance.random(),
            )
            if kind < .25:
                del tokens[at]
            elif kind < .4:
                tokens.insert(at, tokens[other])
            elif kind < .55:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            elif kind < .7:
                tokens[at] = chance.choice(COMMON)
            elif kind < .85:
                tokens.insert(at, f" {chance.choice(COMMON)} ")
            elif kind < .9:
                tokens[at] = chance.choice(vocabulary)
            else:
                donor = chance.choice(originals)
                start = chance.randrange(len(donor))
                tokens[at:at] = donor[start:start + chance.randrange(1, 9)]
        yield "".join(tokens)


PLACES = """SELECT @ FROM t|SELECT a AS @ FROM t|SELECT a FROM @|SELECT a FROM @.t
SELECT @(a) FROM t|SELECT u.@ FROM t|SELECT a FROM t WHERE @ = 1
SELECT a FROM t WHERE k = :@|SELECT a FROM t WHERE k = @(1)
SELECT a FROM t WHERE k = ks.@(1)|SELECT a FROM t WHERE k = @.f(1)
SELECT a FROM t WHERE k = {@: 1}|SELECT (@)a FROM t|SELECT a FROM t ORDER BY @
SELECT cast(a AS @) FROM t|INSERT INTO t (@) VALUES (1)|UPDATE t SET @ = 1 WHERE k = 1
DELETE @ FROM t WHERE k = 1|UPDATE t SET a = 1 WHERE k = 1 IF @ = 1
CREATE TABLE t (@ int PRIMARY KEY)|CREATE TABLE t (k @ PRIMARY KEY)
CREATE TABLE t (k ks.@ PRIMARY KEY)|CREATE TABLE t (k @.a PRIMARY KEY)
CREATE TABLE t (k frozen<@> PRIMARY KEY)|ALTER TABLE t WITH @ = 1
ALTER TABLE t WITH a = @|ALTER TABLE t DROP @|ALTER TABLE t RENAME @ TO b
CREATE TYPE @ (a int)|CREATE TYPE a (@ int)|DESC @|DESC @.t|DESC ks.@|DESC KEYSPACE @
DESC TYPE @|DESC FUNCTION @|USE @|DROP ROLE @|DROP USER @|CREATE INDEX @ ON t (a)
CREATE INDEX i ON t (@)|GRANT @ TO r|GRANT SELECT ON @ TO r|LIST ROLES OF @
DROP FUNCTION @
CREATE FUNCTION f (@ int) CALLED ON NULL INPUT RETURNS int LANGUAGE java AS ''
TRUNCATE @""".replace(
    "\n", "|"
).split(
    "|"
)


def keywords(path):
    with open(path, encoding="utf-8") as file:
        body = file.read().split("\nkeywords! {", 1)[1].split("\n}", 1)[0]
    words = re.findall(r"\b[A-Z][A-Z_]+\b", body)
    assert len(words) > 150, words
    return (place.replace("@", word) for word in words for place in PLACES)


def compare(mutants_path, ours_path, theirs_path):
    with open(mutants_path, encoding="utf-8") as file:
        texts = file.read().split("\0")[:-1]
    verdicts = []
    for path in (ours_path, theirs_path):
        with open(path, encoding="utf-8") as file:
            verdicts.append(file.read().split("\n")[:-1])
    ours, theirs = verdicts
    assert len(texts) == len(ours) == len(theirs), (len(texts), len(ours), len(theirs))
    accepted = sum(verdict == "accept" for verdict in theirs)
    explained = unexplained = 0
    for text, our, their in zip(texts, ours, theirs):
        if our[:6] == their[:6] or their == "unknown":
            continue
        if any(
            their.startswith(verdict)
            and (not message or message.search(their))
            and (not shape or shape.search(text))
            for verdict, message, shape in EXPLAINED
        ):
            explained += 1
            continue
        unexplained += 1
        print(f"{text!r}\n  ours:   {our[:300]}\n  theirs: {their[:300]}")
    print(
        f"{len(texts)} mutants, of which Cassandra takes {accepted}: {explained} explained and "
        f"{unexplained} "
        "unexplained differences"
    )
    return unexplained == 0


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "compare":
        sys.exit(not compare(*sys.argv[2:]))
    if len(sys.argv) == 3 and sys.argv[1] == "keywords":
        made = keywords(sys.argv[2])
    elif len(sys.argv) >= 4:
        made = mutants(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
    else:
        sys.exit(__doc__)
    for mutant in made:
        sys.stdout.write(mutant.replace("\0", "") + "\0")
