"""Verb phrases, modifiers and whole captions of the caption grammar."""

from random import Random

from . import caption_words as words
from .caption_phrases import body_part, chance, coloured, inflected, location, noun, noun_phrase, object_of, of
from .nodes import Node, coordinate, preposition


def verb_phrase(rng: Random, form: str, depth: int = 0) -> Node:
    """Return a verb phrase headed by a verb in the given form (VBG, VBZ, VBP, VB)."""
    kind = rng.choices(["intransitive", "transitive", "particle", "particle_object", "infinitive",
    "perception", "dative", "have"],
                       [45, 38, 6, 4, 3, 2, 1.5, 2])[0]  # fmt: skip
    if kind == "intransitive" and chance(rng, 0.06):
        thing, verb = rng.choice(words.NOUN_VERBS).split(":")
        node = _verb(verb, form)
        node.left.append(Node(thing, "NN", "compound"))
        if chance(rng, 0.6):
            node.right.append(location(rng))
    elif kind == "intransitive" and chance(rng, 0.3):
        node = _verb(rng.choice(words.MOVING), form)
        if chance(rng, 0.75):
            node.right.append(location(rng))
    elif kind == "intransitive":
        verb = rng.choice(sorted(words.INTRANSITIVE))
        node = _verb(verb, form)
        name = rng.choice(words.INTRANSITIVE[verb].split())
        if name == "down" and verb in ("kneel", "crouch", "bend", "squat"):
            node.right.append(Node(name, "RP", "prt"))
        elif name != "-":
            node.right.append(location(rng, name))
        elif chance(rng, 0.5):
            node.right.append(adverb(rng))
    elif kind == "transitive":
        node = transitive(rng, form)
    elif kind == "particle":
        verb, particle = rng.choice(words.PARTICLE).split(":")
        node = _verb(verb, form)
        node.right.append(Node(particle, "RB" if particle in ("away", "around", "back") else "RP",
                               "advmod" if particle in ("away", "around", "back") else "prt"))  # fmt: skip
        if chance(rng, 0.6):
            node.right.append(location(rng))
    elif kind == "particle_object":
        verb, particle = rng.choice(words.PARTICLE_OBJECT).split(":")
        node = _verb(verb, form)
        kind = "clothes" if (verb, particle) in (("put", "on"), ("take", "off"), ("try", "on")) else "thing"
        parts = [Node(particle, "RP", "prt"), object_of(rng, kind).labelled("dobj")]
        node.right += parts if chance(rng, 0.7) else parts[::-1]
    elif kind == "infinitive":
        node = infinitive(rng, form)
    elif kind == "perception":
        verb = rng.choice(["watch", "watch", "see", "film", "help", "photograph"])
        node = _verb(verb, form)
        seen = noun_phrase(rng, rng.choice(["person", "animal", "vehicle"]))
        if verb == "help":
            action = verb_phrase(rng, "VB", 2).labelled("ccomp")
            action.left.insert(0, seen.labelled("nsubj"))
            node.right.append(action)
        else:
            seen.right.append(verb_phrase(rng, "VBG", 2).labelled("acl"))
            node.right.append(seen.labelled("dobj"))
    elif kind == "dative":
        node = _verb(rng.choice(["give", "feed", "show", "hand", "throw"]), form)
        node.right += [
            noun_phrase(rng, rng.choice(["person", "animal"])).labelled("dative"),
            object_of(rng, "thing").labelled("dobj"),
        ]
    else:
        node = _verb("have", form)
        node.right.append((body_part(rng) if chance(rng, 0.4) else object_of(rng, "thing")).labelled("dobj"))
        if chance(rng, 0.4):
            node.right.append(
                rng.choice(
                    [
                        Node(rng.choice(["open", "closed", "crossed", "raised", "outstretched"]), "JJ", "oprd"),
                        Node(rng.choice(["up", "out"]), "RP", "advmod"),
                        location(rng, "in"),
                        location(rng, "around"),
                    ]
                )
            )
    if depth < 2:
        _extend(rng, node, form, depth)
    return node


def _verb(verb: str, form: str) -> Node:
    *before, head = verb.split("_")
    if "-" in verb:
        first, last = verb.split("-")
        word, tag = inflected(last, form)
        return Node(word, tag, left=[Node(first, "NN", "npadvmod"), Node("-", "HYPH", "punct")])
    if before == ["cut"]:
        head, before = "cut", ["up"]
    word, tag = inflected(head, form)
    return Node(word, tag, right=[Node("up", "RP", "prt")] if before == ["up"] else [])


def transitive(rng: Random, form: str) -> Node:
    """Return a verb in the given form with a direct object and sometimes a place or an instrument."""
    verb = rng.choice(["hold", "wear", "ride", "carry"]) if chance(rng, 0.25) else rng.choice(sorted(words.TRANSITIVE))
    kinds = words.TRANSITIVE[verb].split()
    if chance(rng, 0.25):
        verb, kinds = (rng.choice(words.HANDLING), ["thing", "food", "vehicle", "animal", "person", "body", "clothes"])
    node = _verb(verb, form)
    target = object_of(rng, rng.choice(kinds)).labelled("dobj")
    if chance(rng, 0.12):
        target.right.append(noun_modifier(rng, 2))
    node.right.append(target)
    if verb in ("hold", "carry", "throw", "catch", "hit") and chance(rng, 0.3):
        node.right.append(preposition(rng.choice(["in", "with", "on", "over"]), body_part(rng)))
    return node


def infinitive(rng: Random, form: str) -> Node:
    """Return "tries to jump", "gets ready to hit", "starts running", "appears to be riding"."""
    verb = rng.choice(
        ["try", "prepare", "attempt", "wait", "begin", "start", "get", "appear", "seem", "learn", "go", "look"]
    )
    node = _verb(verb, form)
    if verb == "go" or verb == "start" and chance(rng, 0.5):
        node.right.append(verb_phrase(rng, "VBG", 2).labelled("xcomp"))
        return node
    action = verb_phrase(rng, "VBG" if verb in ("appear", "seem") and chance(rng, 0.7) else "VB", 2).labelled("xcomp")
    if action.tag == "VBG":
        action.left.insert(0, Node("be", "VB", "aux"))
    action.left.insert(0, Node("to", "TO", "aux"))
    if verb in ("get", "look"):
        node.right.append(Node("ready", "JJ", "acomp", right=[action]))
    else:
        node.right.append(action)
    return node


def _extend(rng: Random, node: Node, form: str, depth: int) -> None:
    if chance(rng, 0.35):
        node.right.append(location(rng))
    if chance(rng, 0.12):
        node.right.append(adverb(rng))
    if chance(rng, 0.08):
        node.right.append(clause_adverbial(rng))
    if chance(rng, 0.1):
        coordinate([node, verb_phrase(rng, form, 2)])
    elif chance(rng, 0.12) and depth == 0:  # "stands holding a cup", or with a comma
        comma = [Node(",", ",", "punct")] if chance(rng, 0.35) else []
        node.right += [*comma, verb_phrase(rng, "VBG", 2).labelled("advcl")]


def adverb(rng: Random) -> Node:
    """Return an adverb: "together", "outside", "upside down", "side by side", "very high"."""
    word = rng.choice(words.ADVERBS)
    if "_" in word:
        first, *rest = word.split("_")
        if len(rest) == 2:  # side by side
            return Node(first, "NN", "npadvmod", right=[preposition(rest[0], Node(rest[1], "NN"))])
        return Node(rest[0], "RB", "advmod", left=[Node(first, "RB", "advmod")])
    return Node(word, "RB", "advmod")


def clause_adverbial(rng: Random) -> Node:
    """Return "while V-ing", "as NP V", "to V", "with NP V-ing", "before V-ing", "for V-ing", "by V-ing"."""
    kind = rng.choices(["while", "as", "to", "with", "before", "whilst_np"], [30, 25, 12, 18, 6, 12])[0]
    if kind == "while":
        action = verb_phrase(rng, "VBG", 2).labelled("advcl")
        action.left.insert(0, Node("while", "IN", "mark"))
        return action
    if kind in ("as", "whilst_np"):
        clause = full_clause(rng, 2).labelled("advcl")
        clause.left.insert(0, Node("as" if kind == "as" else "while", "IN", "mark"))
        return clause
    if kind == "to":
        action = verb_phrase(rng, "VB", 2).labelled("advcl")
        action.left.insert(0, Node("to", "TO", "aux"))
        return action
    if kind == "before":
        word = rng.choice(["before", "after", "for", "by"])
        return Node(word, "IN", "prep", right=[verb_phrase(rng, "VBG", 2).labelled("pcomp")])
    return absolute(rng)


def absolute(rng: Random) -> Node:
    """Return an absolute: "with its mouth open", "with his arms stretched out", "with a dog V-ing"."""
    target = body_part(rng) if chance(rng, 0.4) else noun_phrase(rng, rng.choice(["person", "thing", "animal"]))
    if target.left and target.left[0].dep == "poss" and chance(rng, 0.5):
        word, tag = rng.choice([("open", "JJ"), ("out", "RP"), ("up", "RP"), ("outstretched", "JJ"),
        ("crossed", "VBN"),
                                ("raised", "VBN"), ("stretched", "VBN"), ("hanging", "VBG"), ("held",
                                "VBN")])  # fmt: skip
        state = Node(word, tag, {"JJ": "amod", "RP": "advmod"}.get(tag, "acl"))
        if word in ("stretched", "hanging", "held") and chance(rng, 0.6):
            state.right.append(Node(rng.choice(["out", "up", "down"]), "RP", "prt"))
        if tag[:2] == "VB" and chance(rng, 0.5):
            state.right.append(location(rng))
        target.right.append(state)
    else:
        target.right.append(verb_phrase(rng, "VBG", 2).labelled("acl") if chance(rng, 0.6) else location(rng))
    return preposition("with", target)


def noun_modifier(rng: Random, depth: int = 1) -> Node:
    """Return a modifier after a noun: "in a red shirt", "wearing a hat", "parked on the street", "who is V-ing"."""
    kind = rng.choices(
        ["clothes", "with", "acl", "passive", "relative", "place", "colour", "dressed", "absolute", "adjective"],
        [18, 14, 26, 14, 7, 14, 5, 4, 3, 4],
    )[0]
    if kind == "clothes":
        parts = [noun_phrase(rng, "clothes") for _ in range(rng.choice([1, 1, 1, 2]))]
        return preposition("in", coordinate(parts) if len(parts) > 1 else parts[0])
    if kind == "absolute":
        return absolute(rng)
    if kind == "adjective" and chance(rng, 0.4):
        return Node(rng.choice(words.NOUN_ADVERBS), "RB", "advmod")
    if kind == "adjective":
        word = rng.choice(words.POSTPOSED)
        name = {"full": "of", "ready": "for", "high": "in", "deep": "in", "free": "of"}.get(word, "")
        return Node(
            word, "JJ", "amod", right=[location(rng, name or rng.choice(["on", "in", "next_to", "on_top_of", "under"]))]
        )
    if kind == "with" and chance(rng, 0.3):
        item = rng.choice(["clothes", "thing", "thing", "food", "person"])
        bare = rng.choice([0.05, 0.05, 0.9])
        parts = [noun_phrase(rng, item, bare=0.1)] + [
            noun_phrase(rng, item, bare=bare) for _ in range(rng.choice([1, 2, 2, 3]))
        ]
        return preposition("with", coordinate(parts, oxford=chance(rng, 0.4)))
    if kind == "with":
        return preposition("with", object_of(rng, rng.choice(["clothes", "thing", "body", "food", "animal"])))
    if kind == "acl":
        if chance(rng, 0.35):
            node = _verb("wear", "VBG")
            colour = Node(rng.choice(words.COLOURS), "NN")
            node.right.append((colour if chance(rng, 0.12) else object_of(rng, "clothes")).labelled("dobj"))
            return node.labelled("acl")
        return verb_phrase(rng, "VBG", 2).labelled("acl")
    if kind == "passive":
        return passive(rng).labelled("acl")
    if kind == "relative":
        return relative(rng)
    if kind == "colour":
        return coloured(rng)
    if kind == "dressed":
        return Node(
            "dressed",
            "VBN",
            "acl",
            right=[coloured(rng) if chance(rng, 0.5) else preposition("in", noun_phrase(rng, "clothes"))],
        )
    return location(rng, rng.choice(["on", "in", "at", "near", "behind", "next_to", "of", "by", "from"]))


def passive(rng: Random) -> Node:
    """Return a participle with its preposition: "parked on the street", "surrounded by trees" (agent)."""
    verb = rng.choice([name for name in sorted(words.PARTICIPLES) if not name.endswith("_")])
    form, tag = inflected(verb, "VBN")
    node = Node(form, tag)
    if chance(rng, 0.04):
        node.left.append(Node(rng.choice(["partially", "neatly", "completely", "brightly"]), "RB", "advmod"))
    names = words.PARTICIPLES[verb].split()
    if not names:
        return node
    name = rng.choice(names)
    target = noun_phrase(rng, rng.choice(["thing", "person", "place", "animal", "food"]))
    if chance(rng, 0.2) and name != "up":
        target = coordinate([target, noun_phrase(rng, rng.choice(["thing", "place"]))])
    node.right.append(preposition(name, target, "agent" if name == "by" else "prep"))
    return node


def relative(rng: Random) -> Node:
    """Return a relative clause: "who is V-ing", "that is parked", "that has NP", "which is on NP", "he is holding"."""
    pronoun = Node(*rng.choice([("who", "WP"), ("that", "WDT"), ("that", "WDT"), ("which", "WDT")]), "nsubj")
    kind = rng.choice(["progressive", "progressive", "passive", "be", "finite"])
    if kind == "finite":
        node = verb_phrase(rng, rng.choice(["VBZ", "VBZ", "VBP"]), 2)
    elif kind == "be":
        node = _be(rng, predicate(rng))
    else:
        node = verb_phrase(rng, "VBG", 2) if kind == "progressive" else passive(rng)
        node.left.insert(0, Node(rng.choice(["is", "is", "are"]), "VBZ", "aux" if kind == "progressive" else "auxpass"))
        node.left[0].tag = "VBZ" if node.left[0].form == "is" else "VBP"
        pronoun.dep = "nsubj" if kind == "progressive" else "nsubjpass"
    node.left.insert(0, pronoun)
    return node.labelled("relcl")


def _be(rng: Random, complement: Node, many: bool = False) -> Node:
    form, tag = ("are", "VBP") if many else ("is", "VBZ")
    if chance(rng, 0.04):
        form, tag = ("were", "VBD") if many else ("was", "VBD")
    return Node(form, tag, right=[complement])


def predicate(rng: Random) -> Node:
    """Return a complement of "is": an adjective, a noun phrase, a place, "ready to V", "full of NP"."""
    kind = rng.choices(["adjective", "noun", "place", "ready", "full", "two"], [25, 15, 40, 8, 6, 6])[0]
    if kind == "place":
        return location(rng)
    if kind == "noun":
        return object_of(rng, rng.choice(["thing", "animal", "vehicle", "person"])).labelled("attr")
    if kind == "ready":
        action = verb_phrase(rng, "VB", 2).labelled("xcomp")
        action.left.insert(0, Node("to", "TO", "aux"))
        return Node(rng.choice(["ready", "about", "about"]), "JJ", "acomp", right=[action])
    if kind == "full":
        return Node("full", "JJ", "acomp", right=[preposition("of", object_of(rng, "food"))])
    parts = [Node(word, "JJ" if word != "upside_down" else "RB", "acomp") for word in rng.sample(words.PREDICATES, 2)]
    for part in parts:
        if part.form == "upside_down":
            part.form, part.dep = "down", "advmod"
            part.left = [Node("upside", "RB", "advmod")]
    if kind == "two":
        return coordinate(parts)
    if parts[0].tag == "JJ" and chance(rng, 0.2):
        parts[0].left.append(Node(rng.choice(["very", "all", "mostly", "so"]), "RB", "advmod"))
    return parts[0]


def subject(rng: Random, bare: float = 0.05) -> tuple[Node, bool]:
    """Return a subject noun phrase, sometimes modified or coordinated, and whether it is plural."""
    kind = rng.choices(["person", "animal", "vehicle", "thing", "food", "place"], [52, 18, 10, 12, 3, 5])[0]
    if chance(rng, 0.09) and kind in ("person", "animal", "vehicle", "thing"):
        group = rng.choice(words.GROUPS)
        many = group in ("couple", "pair", "lot", "bunch", "number") or chance(rng, 0.5)
        inner = noun_phrase(rng, kind, True, 0.95)
        inner.left = [part for part in inner.left if part.dep in ("amod", "compound")]
        head = noun(rng, group) if group != "few_people" else Node("people", "NNS", left=[Node("few", "JJ", "amod")])
        head.left.insert(0, Node("a", "DT", "det"))
        if group == "lot" and chance(rng, 0.4):
            head = Node("lots", "NNS")
        if group == "few_people":
            return head, True
        return of(head, inner), many
    many = chance(rng, 0.3)
    node = noun_phrase(rng, kind, many, bare)
    many = node.tag == "NNS"
    if chance(rng, 0.03):
        counted = rng.choice(["one", "two", "some", "three"])
        node = noun_phrase(rng, kind, True, 1.0)
        node.left = [Node("the", "DT", "det")]
        return of(Node(counted, "DT" if counted == "some" else "CD"), node), counted != "one"
    if chance(rng, 0.33):
        node.right.append(noun_modifier(rng))
    if chance(rng, 0.1):
        other = noun_phrase(rng, kind, False, 0.3 if not node.right else 0.0)
        if chance(rng, 0.3):
            other.right.append(noun_modifier(rng))
        parts = [node, other] if chance(rng, 0.8) else [node, other, noun_phrase(rng, kind, False, 0.1)]
        return coordinate(parts, oxford=chance(rng, 0.5)), True
    return node, many


def full_clause(rng: Random, depth: int = 0) -> Node:
    """Return a clause with subject and finite verb: progressive, simple, passive or copular."""
    who, many = subject(rng) if depth < 2 else (noun_phrase(rng, rng.choice(["person", "animal", "vehicle"])), False)
    many = many or who.tag == "NNS"
    if depth >= 2 and chance(rng, 0.2):
        who.right.append(noun_modifier(rng, 2))
    form = "VBP" if many else "VBZ"
    kind = rng.choices(["progressive", "simple", "passive", "copula"], [42, 34, 10, 14])[0]
    dep = "nsubj"
    if kind == "simple":
        node = verb_phrase(rng, form, depth)
    elif kind == "copula":
        node = _be(rng, predicate(rng), many)
    else:
        node = verb_phrase(rng, "VBG", depth) if kind == "progressive" else passive(rng)
        word, tag = ("are", "VBP") if many else ("is", "VBZ")
        if chance(rng, 0.04):
            word, tag = ("were", "VBD") if many else ("was", "VBD")
        front = [Node(word, tag, "aux")]
        if kind == "passive":
            dep, front[0].dep = "nsubjpass", "auxpass"
            if chance(rng, 0.2):
                front = [Node(word, tag, "aux"), Node("being", "VBG", "auxpass")]
        if chance(rng, 0.03):
            front.append(Node(rng.choice(["both", "all"]), "DT", "advmod") if many else Node("also", "RB", "advmod"))
        node.left = front + node.left
    node.left.insert(0, who.labelled(dep))
    return node
