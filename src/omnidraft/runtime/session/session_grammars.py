"""The grammars of a session: their masks are kept from text to text."""

from collections.abc import Collection
from weakref import WeakKeyDictionary

from omnidraft.errors import GrammarError
from omnidraft.runtime.grammar.constraint import Constraint, DraftSide
from omnidraft.runtime.grammar.grammar import Grammar
from omnidraft.runtime.grammar.token_masks import TokenMasks
from omnidraft.runtime.session.language_model import LanguageModel


class SessionGrammars:
    """Makes the constraint of each text; for one thread."""

    def __init__(self, loaded: LanguageModel) -> None:
        self._loaded = loaded
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
        loaded, ends = self._loaded, tuple(eos_ids)
        of_ends = self._of_target.setdefault(grammar, {})
        if ends not in of_ends:
            of_ends[ends] = TokenMasks(grammar, loaded.target_trie, ends)
        tokens = loaded.target_tokenizer.tokens
        return Constraint(
            of_ends[ends],
            lambda token: (tokens[token] if token < len(tokens) else None) or b"",
            loaded.target_tokenizer.encode if proposes else None,
            self._draft_side(grammar) if proposes else None,
        )

    def _draft_side(self, grammar: Grammar) -> DraftSide | None:
        loaded = self._loaded
        if loaded.drafter_tokenizer is None:
            return None
        if grammar not in self._of_drafter:
            try:
                self._of_drafter[grammar] = TokenMasks(grammar, loaded.draft_trie, ())
            except GrammarError:  # its tokens cannot write the texts, so it drafts none
                return None
        pieces = loaded.drafter_tokenizer.tokens
        allowed = loaded.vocab_map.draft_allowed
        return DraftSide(self._of_drafter[grammar], allowed, lambda token: pieces[token] or b"")
