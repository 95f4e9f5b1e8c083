"""The grammars of a session's texts: their masks are kept from text to text."""

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from omnidraft.errors import GrammarError
from omnidraft.runtime.grammar.byte_trie import ByteTrie
from omnidraft.runtime.grammar.constraint import Constraint, DraftSide, Mask
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.grammar.token_masks import TokenMasks
from omnidraft.runtime.vocab.tokenizer import Tokenizer

MOST_GRAMMARS = 4  # whose masks are kept
K = TypeVar("K")
V = TypeVar("V")


class TextGrammars:
    """Makes the constraint of each text; for one thread."""

    def __init__(
        self,
        target: tuple[Tokenizer, Callable[[], ByteTrie]],
        drafter: tuple[Tokenizer, Callable[[], ByteTrie], Mask] | None,
        controls: Mapping[int, bytes],
    ) -> None:
        """
        Args:
            target: its tokenizer and the bytes of its tokens.
            drafter: the same of the drafter, and the draft ids that it may propose; None without one.
            controls: what outputs show of control tokens of the target.
        """
        self._target, self._drafter, self._controls = target, drafter, controls
        self._of_target: OrderedDict[tuple[Grammar, tuple[int, ...]], TokenMasks] = OrderedDict()
        self._of_drafter: OrderedDict[Grammar, DraftSide | None] = OrderedDict()

    def constraint(self, grammar: Grammar, eos_ids: Collection[int], *, proposes: bool) -> Constraint:
        """Keeps one text in a grammar.

        Args:
            eos_ids: end tokens of the text.
            proposes: whether bytes that the grammar fixes are proposed, and drafts are kept in it.

        Raises:
            GrammarError: the target's tokens cannot write any text of the grammar.
        """
        tokenizer, trie_of = self._target
        ends = tuple(eos_ids)
        masks = _kept(
            self._of_target,
            (grammar, ends),
            lambda: TokenMasks(grammar, trie_of(), ends, self._controls, tokenizer.spell),
        )
        tokens = tokenizer.tokens
        return Constraint(
            masks,
            lambda token: (tokens[token] if token < len(tokens) else None) or b"",
            proposes=proposes,
            draft=_kept(self._of_drafter, grammar, lambda: self._draft_side(grammar)) if proposes else None,
        )

    def _draft_side(self, grammar: Grammar) -> DraftSide | None:
        if self._drafter is None:
            return None
        tokenizer, trie_of, allowed = self._drafter
        try:
            masks = TokenMasks(grammar, trie_of(), ())
        except GrammarError:  # its tokens cannot write the texts, so its drafts are not restricted
            return None
        pieces = tokenizer.tokens
        return DraftSide(masks, allowed, lambda token: pieces[token] or b"")


def _kept(values: OrderedDict[K, V], key: K, make: Callable[[], V]) -> V:
    """The value of a key; those of the last keys that were asked for are kept."""
    if key not in values:
        values[key] = make()
    values.move_to_end(key)
    if len(values) > MOST_GRAMMARS:
        values.popitem(last=False)
    return values[key]
