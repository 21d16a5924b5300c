"""Generate captions with gold trees from a grammar, for constructions of captions that web treebanks lack.

They are captions without verb or article ("zebra walking on grass"), reduced relatives before the finite verb ("a boy
wearing a cap is crouching"), third persons that look like plurals ("a dog leaps"), existential and picture captions
("a close up of"), long coordinations and complex prepositions. Vocabulary and templates were written for this project.

The grammar is a set of functions that each return one construction, and tables of their weights, from which `weighted`
draws. The order of the draws in a function matters: another order gives other captions for the same seed. A clause
inside another one has a depth; from the depth LEAST on it has no clauses inside, so that every caption ends. In the
docstrings, NP is a noun phrase, V a verb phrase, and V-ing one with an -ing form.
"""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from .phrases import (
    COLOURS,
    WORDS,
    Node,
    adjectives,
    body_part,
    chance,
    coloured,
    comma,
    coordinate,
    determined,
    flatten,
    inflected,
    leaf,
    location,
    noun,
    noun_phrase,
    object_of,
    of,
    preposition,
    weighted,
)
from .tree import Tree

# The depth from which a clause is short: it has no further clauses inside.
LEAST = 2
Construction = Callable[[Random], Node]
# The str is the form of the verb, as a Penn tag: VBG, VBZ, VBP or VB.
VerbConstruction = Callable[[Random, str], Node]


def caption_trees(count: int, rng: Random) -> list[Tree]:
    """Return `count` random captions of 3 to 32 words, with Penn tags and CLEAR dependencies.

    Most begin with a capital and end with a full stop; some have a space before it, as in Flickr's token files.
    """
    trees: list[Tree] = []
    while len(trees) < count:
        root = weighted(rng, TEMPLATES)(rng)
        tree = flatten(root.after(leaf("././punct")) if chance(rng, 0.75) else root)
        if 3 <= len(tree) <= 32:
            if chance(rng, 0.75):
                tree.forms[0] = tree.forms[0][0].upper() + tree.forms[0][1:]
            if tree.forms[-1] == "." and chance(rng, 0.5):
                tree.spaces[-2] = True
            trees.append(tree)
    return trees


def verb(entry: str, form: str) -> Node:
    """Return a verb of the vocabulary, such as "ride" or "cut_up", as VBG, VBZ, VBP, VB or VBN.

    A noun may stand before it, with a hyphen: of "cross-country_ski" as VBG, "cross", "-" and "country_skiing".
    """
    first, dash, word = entry.rpartition("-")
    if word == "cut_up":  # the only verb with a particle
        return verb("cut", form).after(leaf("up/RP/prt"))
    front = [leaf(f"{first}/NN/npadvmod"), leaf("-/HYPH/punct")] if dash else []
    return Node(inflected(word, form), form, left=front)


def verb_phrase(rng: Random, form: str, depth: int = 0) -> Node:
    """Return a verb phrase headed by a verb in the given form (VBG, VBZ, VBP, VB); short from the depth LEAST on."""
    node = weighted(rng, VERB_PHRASES)(rng, form)
    if depth >= LEAST:
        return node
    if chance(rng, 0.35):
        node.after(location(rng))
    if chance(rng, 0.12):
        node.after(adverb(rng))
    if chance(rng, 0.08):
        node.after(clause_adverbial(rng))
    if chance(rng, 0.1):
        coordinate([node, verb_phrase(rng, form, LEAST)])
    elif chance(rng, 0.12) and depth == 0:  # "stands holding a cup", or with a comma
        if chance(rng, 0.35):
            node.after(comma())
        node.after(verb_phrase(rng, "VBG", LEAST).labelled("advcl"))
    return node


def intransitive(rng: Random, form: str) -> Node:
    """Return a verb with a place, an adverb or nothing: "runs along the beach", "is mountain biking"."""
    if chance(rng, 0.06):
        thing, name = rng.choice(WORDS["noun_verbs"]).split(":")
        node = verb(name, form).before(Node(thing, "NN", "compound"))
        return node.after(location(rng)) if chance(rng, 0.6) else node
    if chance(rng, 0.3):
        node = verb(rng.choice(WORDS["moving"]), form)
        return node.after(location(rng)) if chance(rng, 0.75) else node
    name = rng.choice(sorted(WORDS["intransitive"]))
    node = verb(name, form)
    follows = rng.choice(WORDS["intransitive"][name])
    if follows == "down" and name in ("kneel", "crouch", "bend", "squat"):
        return node.after(leaf("down/RP/prt"))
    if follows != "-":  # "-" stands for no preposition
        return node.after(location(rng, follows))
    return node.after(adverb(rng)) if chance(rng, 0.5) else node


def transitive(rng: Random, form: str) -> Node:
    """Return a verb with a direct object: "rides a horse", sometimes "carries a bag in his hand"."""
    is_common = chance(rng, 0.25)
    name = rng.choice(["hold", "wear", "ride", "carry"] if is_common else sorted(WORDS["transitive"]))
    kinds = WORDS["transitive"][name]
    # Often a verb that takes any object takes its place.
    if chance(rng, 0.25):
        name = rng.choice(WORDS["handling"])
        kinds = "thing food vehicle animal person body clothes".split()
    node = verb(name, form)
    target = object_of(rng, rng.choice(kinds)).labelled("dobj")
    if chance(rng, 0.12):
        target.after(noun_modifier(rng))
    node.after(target)
    if name in ("hold", "carry", "throw", "catch", "hit") and chance(rng, 0.3):
        node.after(preposition(rng.choice(["in", "with", "on", "over"]), body_part(rng)))
    return node


def with_particle(rng: Random, form: str) -> Node:
    """Return a verb with a particle: "sits down", "walks away"."""
    name, particle = rng.choice(WORDS["particle"]).split(":")
    label = "RB/advmod" if particle in ("away", "around", "back") else "RP/prt"
    node = verb(name, form).after(leaf(f"{particle}/{label}"))
    return node.after(location(rng)) if chance(rng, 0.6) else node


def with_particle_and_object(rng: Random, form: str) -> Node:
    """Return a verb with a particle and an object in either order: "puts on a hat", "holds a sign up"."""
    entry = rng.choice(WORDS["particle_object"])
    name, particle = entry.split(":")
    kind = "clothes" if entry in ("put:on", "take:off", "try:on") else "thing"
    particle_node = Node(particle, "RP", "prt")
    target = object_of(rng, kind).labelled("dobj")
    if chance(rng, 0.7):
        return verb(name, form).after(particle_node, target)
    return verb(name, form).after(target, particle_node)


def infinitive(rng: Random, form: str) -> Node:
    """Return "tries to jump", "gets ready to hit", "starts running", "appears to be riding"."""
    name = rng.choice("try prepare attempt wait begin start get appear seem learn go look".split())
    node = verb(name, form)
    if name == "go" or (name == "start" and chance(rng, 0.5)):
        return node.after(verb_phrase(rng, "VBG", LEAST).labelled("xcomp"))
    if name in ("appear", "seem") and chance(rng, 0.7):
        action = verb_phrase(rng, "VBG", LEAST).before(leaf("be/VB/aux"))
    else:
        action = verb_phrase(rng, "VB", LEAST)
    action.labelled("xcomp").before(leaf("to/TO/aux"))
    # "gets ready to hit", "looks ready to jump".
    if name in ("get", "look"):
        return node.after(leaf("ready/JJ/acomp").after(action))
    return node.after(action)


def perception(rng: Random, form: str) -> Node:
    """Return "watches a dog V-ing", "helps a child V"."""
    name = rng.choice(["watch", "watch", "see", "film", "help", "photograph"])
    seen = noun_phrase(rng, rng.choice(["person", "animal", "vehicle"]))
    if name == "help":
        return verb(name, form).after(verb_phrase(rng, "VB", LEAST).labelled("ccomp").before(seen.labelled("nsubj")))
    return verb(name, form).after(seen.labelled("dobj").after(verb_phrase(rng, "VBG", LEAST).labelled("acl")))


def ditransitive(rng: Random, form: str) -> Node:
    """Return "gives a horse an apple"."""
    node = verb(rng.choice(["give", "feed", "show", "hand", "throw"]), form)
    receiver = noun_phrase(rng, rng.choice(["person", "animal"])).labelled("dative")
    return node.after(receiver, object_of(rng, "thing").labelled("dobj"))


def possession(rng: Random, form: str) -> Node:
    """Return "has a ball", "has its mouth open"."""
    node = verb("have", form)
    node.after((body_part(rng) if chance(rng, 0.4) else object_of(rng, "thing")).labelled("dobj"))
    if chance(rng, 0.4):
        states = [
            Node(rng.choice(["open", "closed", "crossed", "raised", "outstretched"]), "JJ", "oprd"),
            Node(rng.choice(["up", "out"]), "RP", "advmod"),
            location(rng, "in"),
            location(rng, "around"),
        ]
        node.after(rng.choice(states))
    return node


VERB_PHRASES: dict[VerbConstruction, float] = {
    intransitive: 45, transitive: 38, with_particle: 6, with_particle_and_object: 4, infinitive: 3, perception: 2,
    ditransitive: 1.5, possession: 2,
}  # fmt: skip


def adverb(rng: Random) -> Node:
    """Return an adverb: "together", "outside", "upside down", "side by side"."""
    first, *rest = rng.choice(WORDS["adverbs"]).split("_")
    if len(rest) == 2:  # side by side
        return Node(first, "NN", "npadvmod", right=[preposition(rest[0], Node(rest[1], "NN"))])
    node = Node(first, "RB", "advmod")
    return Node(rest[0], "RB", "advmod", left=[node]) if rest else node


def clause_adverbial(rng: Random) -> Node:
    """Return "while V-ing", "as NP V", "to V", "with NP V-ing", "before V-ing", "for V-ing", "by V-ing"."""
    return weighted(rng, CLAUSE_ADVERBIALS)(rng)


def while_doing(rng: Random) -> Node:
    """Return "while V-ing"."""
    return verb_phrase(rng, "VBG", LEAST).labelled("advcl").before(leaf("while/IN/mark"))


def as_somebody_does(rng: Random) -> Node:
    """Return "as NP V"."""
    return full_clause(rng, LEAST).labelled("advcl").before(leaf("as/IN/mark"))


def while_somebody_does(rng: Random) -> Node:
    """Return "while NP V"."""
    return full_clause(rng, LEAST).labelled("advcl").before(leaf("while/IN/mark"))


def to_do(rng: Random) -> Node:
    """Return "to V"."""
    return verb_phrase(rng, "VB", LEAST).labelled("advcl").before(leaf("to/TO/aux"))


def before_doing(rng: Random) -> Node:
    """Return "before V-ing", "after V-ing", "for V-ing", "by V-ing"."""
    word = rng.choice(["before", "after", "for", "by"])
    return Node(word, "IN", "prep", right=[verb_phrase(rng, "VBG", LEAST).labelled("pcomp")])


def absolute(rng: Random) -> Node:
    """Return an absolute: "with its mouth open", "with his arms stretched out", "with a dog V-ing"."""
    target = body_part(rng) if chance(rng, 0.4) else noun_phrase(rng, rng.choice(["person", "thing", "animal"]))
    has_owner = bool(target.left) and target.left[0].dep == "poss"
    if has_owner and chance(rng, 0.5):
        state = _state_of_body_part(rng)
    elif chance(rng, 0.6):
        state = verb_phrase(rng, "VBG", LEAST).labelled("acl")
    else:
        state = location(rng)
    return preposition("with", target.after(state))


def _state_of_body_part(rng: Random) -> Node:
    """Return "open", "up", "stretched out", "crossed in front of him"."""
    states = (
        "open/JJ/amod out/RP/advmod up/RP/advmod outstretched/JJ/amod crossed/VBN/acl raised/VBN/acl "
        "stretched/VBN/acl hanging/VBG/acl held/VBN/acl"
    )
    state = leaf(rng.choice(states.split()))
    if state.form in ("stretched", "hanging", "held") and chance(rng, 0.6):
        state.after(Node(rng.choice(["out", "up", "down"]), "RP", "prt"))
    if state.dep == "acl" and chance(rng, 0.5):
        state.after(location(rng))
    return state


CLAUSE_ADVERBIALS: dict[Construction, float] = {
    while_doing: 30, as_somebody_does: 25, to_do: 12, absolute: 18, before_doing: 6, while_somebody_does: 12,
}  # fmt: skip


def noun_modifier(rng: Random) -> Node:
    """Return a modifier after a noun: "in a red shirt", "wearing a hat", "parked on the street", "who is V-ing"."""
    return weighted(rng, NOUN_MODIFIERS)(rng)


def in_clothes(rng: Random) -> Node:
    """Return "in a red shirt", "in jeans and a hat"."""
    return preposition("in", coordinate([noun_phrase(rng, "clothes") for _ in range(rng.choice([1, 1, 1, 2]))]))


def adjective_after_noun(rng: Random) -> Node:
    """Return "full of NP", "high in the air", or an adverb such as "outside"."""
    if chance(rng, 0.4):
        return Node(rng.choice(WORDS["noun_adverbs"]), "RB", "advmod")
    word = rng.choice(WORDS["postposed"])
    fixed = {"full": "of", "ready": "for", "high": "in", "deep": "in", "free": "of"}.get(word)
    name = fixed or rng.choice(["on", "in", "next_to", "on_top_of", "under"])
    return Node(word, "JJ", "amod", right=[location(rng, name)])


def with_things(rng: Random) -> Node:
    """Return "with a hat", "with rice, beans and meat"."""
    if not chance(rng, 0.3):
        return preposition("with", object_of(rng, rng.choice(["clothes", "thing", "body", "food", "animal"])))
    item = rng.choice(["clothes", "thing", "thing", "food", "person"])
    # How often further nouns have no determiner: "a bowl and a cup" or, less often, "a bowl and cup".
    bare = rng.choice([0.05, 0.05, 0.9])
    parts = [noun_phrase(rng, item, bare=0.1)]
    parts += [noun_phrase(rng, item, bare=bare) for _ in range(rng.choice([1, 2, 2, 3]))]
    return preposition("with", coordinate(parts, oxford=chance(rng, 0.4)))


def participle(rng: Random) -> Node:
    """Return "riding a horse", and often "wearing a hat"."""
    if not chance(rng, 0.35):
        return verb_phrase(rng, "VBG", LEAST).labelled("acl")
    colour = Node(rng.choice(COLOURS), "NN")
    worn = colour if chance(rng, 0.12) else object_of(rng, "clothes")
    return leaf("wearing/VBG/acl").after(worn.labelled("dobj"))


def passive_participle(rng: Random) -> Node:
    """Return "parked on the street"."""
    return passive(rng).labelled("acl")


def dressed(rng: Random) -> Node:
    """Return "dressed in red", "dressed in a suit"."""
    clothes = coloured(rng) if chance(rng, 0.5) else preposition("in", noun_phrase(rng, "clothes"))
    return leaf("dressed/VBN/acl").after(clothes)


def place_of_noun(rng: Random) -> Node:
    """Return "on the table", "of a house", "by a lake"."""
    return location(rng, rng.choice(["on", "in", "at", "near", "behind", "next_to", "of", "by", "from"]))


def passive(rng: Random) -> Node:
    """Return a participle with its preposition: "parked on the street", "surrounded by trees" (agent)."""
    entry = rng.choice(sorted(WORDS["participles"]))
    node = verb(entry, "VBN")
    prepositions = WORDS["participles"][entry]
    if chance(rng, 0.04):
        node.before(Node(rng.choice(["partially", "neatly", "completely", "brightly"]), "RB", "advmod"))
    if not prepositions:
        return node
    name = rng.choice(prepositions)
    target = noun_phrase(rng, rng.choice(["thing", "person", "place", "animal", "food"]))
    if chance(rng, 0.2):
        coordinate([target, noun_phrase(rng, rng.choice(["thing", "place"]))])
    return node.after(preposition(name, target, "agent" if name == "by" else "prep"))


def relative(rng: Random) -> Node:
    """Return a relative clause: "who is V-ing", "that is parked", "that has NP", "which is on NP", "he is holding"."""
    pronoun = leaf(rng.choice(["who/WP/nsubj", "that/WDT/nsubj", "that/WDT/nsubj", "which/WDT/nsubj"]))
    kind = rng.choice(["progressive", "progressive", "passive", "be", "finite"])
    if kind == "finite":
        node = verb_phrase(rng, rng.choice(["VBZ", "VBZ", "VBP"]), LEAST)
    elif kind == "be":
        complement = predicate(rng)
        node = be(rng, many=False).after(complement)
    elif kind == "progressive":
        node = verb_phrase(rng, "VBG", LEAST).before(leaf(rng.choice(["is/VBZ/aux", "is/VBZ/aux", "are/VBP/aux"])))
    else:
        node = passive(rng)
        node.before(leaf(rng.choice(["is/VBZ/auxpass", "is/VBZ/auxpass", "are/VBP/auxpass"])))
        pronoun.dep = "nsubjpass"
    return node.labelled("relcl").before(pronoun)


NOUN_MODIFIERS: dict[Construction, float] = {
    in_clothes: 18, with_things: 14, participle: 26, passive_participle: 14, relative: 7, place_of_noun: 14,
    coloured: 5, dressed: 4, absolute: 3, adjective_after_noun: 4,
}  # fmt: skip


def be(rng: Random, many: bool) -> Node:
    """Return "is", or "are" with many; sometimes "was" or "were"."""
    if chance(rng, 0.04):
        return leaf("were/VBD" if many else "was/VBD")
    return leaf("are/VBP" if many else "is/VBZ")


def predicate(rng: Random) -> Node:
    """Return a complement of "is": an adjective, a noun phrase, a place, "ready to V" or "full of NP"."""
    return weighted(rng, PREDICATES)(rng)


def predicate_noun(rng: Random) -> Node:
    """Return a noun phrase as the complement of "is": "(it is) a dog"."""
    return object_of(rng, rng.choice(["thing", "animal", "vehicle", "person"])).labelled("attr")


def ready_to_do(rng: Random) -> Node:
    """Return "ready to V", "about to V"."""
    action = verb_phrase(rng, "VB", LEAST).labelled("xcomp").before(leaf("to/TO/aux"))
    return Node(rng.choice(["ready", "about", "about"]), "JJ", "acomp", right=[action])


def full_of_food(rng: Random) -> Node:
    """Return "full of NP"."""
    return leaf("full/JJ/acomp").after(preposition("of", object_of(rng, "food")))


def _predicate_adjectives(rng: Random) -> list[Node]:
    """Return two different adjectives; one may be "upside down"."""
    nodes = []
    for word in rng.sample(WORDS["predicates"], 2):
        if word == "upside_down":
            nodes.append(Node("down", "RB", "advmod", left=[leaf("upside/RB/advmod")]))
        else:
            nodes.append(Node(word, "JJ", "acomp"))
    return nodes


def predicate_adjective(rng: Random) -> Node:
    """Return "empty", "very large", "upside down"."""
    node = _predicate_adjectives(rng)[0]
    if node.tag == "JJ" and chance(rng, 0.2):
        node.before(Node(rng.choice(["very", "all", "mostly", "so"]), "RB", "advmod"))
    return node


def two_adjectives(rng: Random) -> Node:
    """Return "wet and cold"."""
    return coordinate(_predicate_adjectives(rng))


PREDICATES: dict[Construction, float] = {
    predicate_adjective: 25, predicate_noun: 15, location: 40, ready_to_do: 8, full_of_food: 6, two_adjectives: 6,
}  # fmt: skip


class ClauseSubject(NamedTuple):
    """A noun phrase that may be a subject, and whether its verb is plural."""

    phrase: Node
    many: bool


SUBJECT_KINDS = {"person": 52, "animal": 18, "vehicle": 10, "thing": 12, "food": 3, "place": 5}


def subject(rng: Random, bare: float = 0.05) -> ClauseSubject:
    """Draw the subject of a clause: a noun phrase, sometimes modified ("a man in red") or joined ("a man and a dog").

    Args:
        rng: draws it.
        bare: the probability that it has no determiner ("dogs").
    """
    kind = weighted(rng, SUBJECT_KINDS)
    if chance(rng, 0.09) and kind not in ("food", "place"):
        return _group_of(rng, kind)
    node = noun_phrase(rng, kind, chance(rng, 0.3), bare)
    many = node.tag == "NNS"
    # "one of the dogs".
    if chance(rng, 0.03):
        counted = leaf(rng.choice(["one/CD", "two/CD", "some/DT", "three/CD"]))
        node = noun_phrase(rng, kind, many=True, bare=1.0)
        node.left = [leaf("the/DT/det")]
        return ClauseSubject(of(counted, node), counted.form != "one")
    if chance(rng, 0.33):
        node.after(noun_modifier(rng))
    if chance(rng, 0.1):
        other = noun_phrase(rng, kind, many=False, bare=0.0 if node.right else 0.3)
        if chance(rng, 0.3):
            other.after(noun_modifier(rng))
        parts = [node, other] if chance(rng, 0.8) else [node, other, noun_phrase(rng, kind, many=False, bare=0.1)]
        return ClauseSubject(coordinate(parts, oxford=chance(rng, 0.5)), many=True)
    return ClauseSubject(node, many)


def _group_of(rng: Random, kind: str) -> ClauseSubject:
    """Return a subject such as "a group of people", "lots of red cars" or "a few people"."""
    group = rng.choice(WORDS["groups"])
    many = group in ("couple", "pair", "lot", "bunch", "number") or chance(rng, 0.5)
    inner = noun_phrase(rng, kind, many=True, bare=0.95)
    inner.left = [part for part in inner.left if part.dep in ("amod", "compound")]  # no determiner behind "of"
    if group == "few_people":
        return ClauseSubject(leaf("people/NNS").before(leaf("a/DT/det"), leaf("few/JJ/amod")), many=True)
    head = noun(rng, group).before(leaf("a/DT/det"))
    if group == "lot" and chance(rng, 0.4):
        head = leaf("lots/NNS")
    return ClauseSubject(of(head, inner), many)


CLAUSES = {"progressive": 42, "simple": 34, "passive": 10, "copula": 14}


def full_clause(rng: Random, depth: int = 0) -> Node:
    """Return a clause with subject and finite verb: progressive, simple, passive or copular."""
    if depth < LEAST:
        who, many = subject(rng)
    else:
        who = noun_phrase(rng, rng.choice(["person", "animal", "vehicle"]))
        many = False
    many = many or who.tag == "NNS"
    if depth >= LEAST and chance(rng, 0.2):
        who.after(noun_modifier(rng))
    kind = weighted(rng, CLAUSES)
    if kind == "simple":
        return verb_phrase(rng, "VBP" if many else "VBZ", depth).before(who.labelled("nsubj"))
    if kind == "copula":
        complement = predicate(rng)
        return be(rng, many).before(who.labelled("nsubj")).after(complement)
    if kind == "progressive":
        node = verb_phrase(rng, "VBG", depth)
        auxiliaries = [be(rng, many).labelled("aux")]
        who.labelled("nsubj")
    else:
        node = passive(rng)
        auxiliaries = [be(rng, many).labelled("auxpass")]
        if chance(rng, 0.2):  # "is being chased"
            auxiliaries = [auxiliaries[0].labelled("aux"), leaf("being/VBG/auxpass")]
        who.labelled("nsubjpass")
    if chance(rng, 0.03):
        auxiliaries.append(Node(rng.choice(["both", "all"]), "DT", "advmod") if many else leaf("also/RB/advmod"))
    return node.before(who, *auxiliaries)


def reduced_relative(rng: Random) -> Node:
    """Return a clause whose subject is modified by a participle: "a boy wearing a cap is crouching"."""
    node = full_clause(rng)
    who = node.left[0]
    if not who.right:
        modifier = noun_modifier(rng)
        who.after(verb_phrase(rng, "VBG", LEAST).labelled("acl") if chance(rng, 0.6) else modifier)
    return node


def existential(rng: Random) -> Node:
    """Return "there is a dog on the couch", "there are two men V-ing"."""
    who, many = subject(rng, bare=0.0)
    if chance(rng, 0.5):
        who.after(verb_phrase(rng, "VBG", 1).labelled("acl"))
    node = leaf("are/VBP" if many else "is/VBZ").before(leaf("there/EX/expl")).after(who.labelled("attr"))
    return node.after(location(rng)) if chance(rng, 0.4) else node


def fronted(rng: Random) -> Node:
    """Return a clause that begins with a place or participle: "in a field , a dog is running"."""
    node = full_clause(rng)
    front = location(rng) if chance(rng, 0.6) else verb_phrase(rng, "VBG", LEAST).labelled("advcl")
    if chance(rng, 0.8):
        return node.before(front, comma())
    return node.before(front)


def two_clauses(rng: Random) -> Node:
    """Return two clauses: "a man is V-ing and a woman is V-ing", "..., while ...", "..., a dog next to him"."""
    first = full_clause(rng, 1)
    if chance(rng, 0.65):
        if chance(rng, 0.4):
            first.after(comma())
        second = full_clause(rng, 1)
        return first.after(Node(rng.choice(["and", "and", "but"]), "CC", "cc"), second.labelled("conj"))
    if chance(rng, 0.6):
        if chance(rng, 0.3):
            first.after(comma())
        return first.after(clause_adverbial(rng))
    return first.after(comma(), full_clause(rng, LEAST).labelled("parataxis"))


def subjectless(rng: Random) -> Node:
    """Return "riding a horse on the beach", "sitting on a bench"."""
    return verb_phrase(rng, "VBG")


def coordinated_subjects(rng: Random) -> Node:
    """Return "a man in a red shirt and a woman with a hat are V-ing", or the same without verb."""
    parts = []
    for _ in range(rng.choice([2, 2, 2, 3])):
        part = subject(rng, bare=0.1).phrase
        # "a and b and c" would be ambiguous.
        while any(child.dep == "conj" for child in part.right):
            part = subject(rng, bare=0.1).phrase
        if not part.right and chance(rng, 0.5):
            part.after(noun_modifier(rng))
        parts.append(part)
    who = coordinate(parts, oxford=chance(rng, 0.5))
    if chance(rng, 0.35):
        return who
    node = verb_phrase(rng, "VBG").before(leaf("are/VBP/aux")) if chance(rng, 0.6) else verb_phrase(rng, "VBP")
    return node.before(who.labelled("nsubj"))


def telegraphic(rng: Random) -> Node:
    """Return a clause without articles: "man sits on bike in air", "young woman lifts arms"."""

    def without_articles(node: Node) -> Node:
        """Take the articles out of a phrase, in place."""
        node.left = [without_articles(child) for child in node.left if child.form not in ("a", "an", "the")]
        node.right = [without_articles(child) for child in node.right]
        return node

    return without_articles(full_clause(rng) if chance(rng, 0.7) else headless(rng))


def place_only(rng: Random) -> Node:
    """Return a noun phrase with places: "a bench in front of a lake", "a kitchen with a stove and a sink"."""
    who = subject(rng, bare=0.15).phrase
    if not any(child.dep == "conj" for child in who.right):
        names = "in on with next_to in_front_of at near on_top_of".split()
        who.after(location(rng, rng.choice(names)) if chance(rng, 0.7) else noun_modifier(rng))
        if chance(rng, 0.3):
            who.after(location(rng))
        if chance(rng, 0.25):
            who.after(comma(), noun_modifier(rng))
    return who


def headless(rng: Random) -> Node:
    """Return a noun phrase: "a dog running on grass", "man riding horse", "a plate with food on it"."""
    who = subject(rng, bare=0.3).phrase  # in 30 % without an article: "man riding horse"
    if chance(rng, 0.03) and not who.right:
        who.after(Node(rng.choice(WORDS["noun_adverbs"]), "RB", "advmod"))
    if not any(part.dep in ("acl", "relcl", "conj") for part in who.right):
        who.after((passive(rng) if chance(rng, 0.2) else verb_phrase(rng, "VBG")).labelled("acl"))
    elif chance(rng, 0.6):  # "a boy and a girl | playing": it modifies all conjuncts, so it depends on the first
        who.after(verb_phrase(rng, "VBG", 1).labelled("acl"))
    return who.after(clause_adverbial(rng)) if chance(rng, 0.12) else who


def picture(rng: Random) -> Node:
    """Return "a close up of NP", "a black and white photo of NP V-ing", "a view of", "this is a picture of"."""
    word = rng.choice(WORDS["pictures"])
    alone = ["person", "animal", "thing", "place", "food"]
    inner = headless(rng) if chance(rng, 0.5) else noun_phrase(rng, rng.choice(alone))
    if word in ("close_up", "close-up"):
        head = leaf("up/NN").before(leaf("close/JJ/amod"), *([leaf("-/HYPH/punct")] if "-" in word else []))
    else:
        before, _, last = word.rpartition("_")
        head = noun(rng, last)
        if before:
            head.left = [leaf("side/NN/compound")] if before == "side" else adjectives(before)
    head = of(determined(rng, head, many=False, bare=0.1), inner)
    if chance(rng, 0.12):
        return leaf("is/VBZ").before(Node(rng.choice(["this", "here"]), "DT", "nsubj")).after(head.labelled("attr"))
    return head


TEMPLATES: dict[Construction, float] = {
    full_clause: 30, reduced_relative: 16, headless: 22, place_only: 9, picture: 6, existential: 5, fronted: 4,
    two_clauses: 7, coordinated_subjects: 9, subjectless: 2, telegraphic: 6,
}  # fmt: skip
