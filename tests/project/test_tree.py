"""docs/tree.md lists every module and document, with the descriptions that they have now."""

from pathlib import Path

from scripts.tree import ROOT, TREE, description, render


def test_the_tree_in_the_docs_is_up_to_date() -> None:
    assert (ROOT / TREE).read_text(encoding="utf-8") == render(), f"{TREE} is out of date; run `make tree`"


def test_a_description_is_the_first_paragraph_of_a_docstring_or_the_heading(tmp_path: Path) -> None:
    module, page = tmp_path / "a.py", tmp_path / "a.md"
    module.write_text('"""What it is.\n\nMore.\n"""\n', encoding="utf-8")
    page.write_text("---\nlicense: x\n---\n\n# Its heading\n\nText.\n", encoding="utf-8")
    assert description(module) == "What it is."
    assert description(page) == "Its heading"
