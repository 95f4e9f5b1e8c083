"""The grammars of a session's texts: their masks are kept from text to text."""

from collections.abc import Callable, Collection, Mapping
from weakref import WeakKeyDictionary

from omnidraft.errors import GrammarError
from omnidraft.runtime.grammar.byte_trie import ByteTrie
from omnidraft.runtime.grammar.constraint import Constraint, DraftSide, Mask
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.grammar.token_masks import TokenMasks
from omnidraft.runtime.vocab.tokenizer import Tokenizer


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
        self._of_target: WeakKeyDictionary[Grammar, dict[tuple[int, ...], TokenMasks]] = WeakKeyDictionary()
        self._of_drafter: WeakKeyDictionary[Grammar, TokenMasks] = WeakKeyDictionary()

    def constraint(self, grammar: Grammar, eos_ids: Collection[int], *, proposes: bool) -> Constraint:
        """Keeps one text in a grammar.

        Args:
            eos_ids: end tokens of the text.
            proposes: whether bytes that the grammar fixes are proposed, and drafts are kept in it.

        Raises:
            GrammarError: the target's tokens cannot write any text of the grammar.
        """
        tokenizer, trie_of = self._target
        of_ends, ends = self._of_target.setdefault(grammar, {}), tuple(eos_ids)
        if ends not in of_ends:
            of_ends[ends] = TokenMasks(grammar, trie_of(), ends, self._controls)
        tokens = tokenizer.tokens
        return Constraint(
            of_ends[ends],
            lambda token: (tokens[token] if token < len(tokens) else None) or b"",
            tokenizer.encode if proposes else None,
            self._draft_side(grammar) if proposes else None,
        )

    def _draft_side(self, grammar: Grammar) -> DraftSide | None:
        if self._drafter is None:
            return None
        tokenizer, trie_of, allowed = self._drafter
        if grammar not in self._of_drafter:
            try:
                self._of_drafter[grammar] = TokenMasks(grammar, trie_of(), ())
            except GrammarError:  # its tokens cannot write the texts, so it drafts none
                return None
        pieces = tokenizer.tokens
        return DraftSide(self._of_drafter[grammar], allowed, lambda token: pieces[token] or b"")
