"""Prompts that export and bench use when they are given none: four kinds of text, our own words."""

PROMPTS = (
    "Mia has 4 boxes with 12 pencils each. She gives 9 pencils to her brother. How many pencils are left?",
    "A train travels 60 miles in the first hour and 45 miles in the second. How many miles is that in all?",
    "Write a function to find the largest number in a list.",
    "Write a python function to check whether a string is a palindrome.",
    "Summarize in one sentence: We study how a small language model can propose tokens for a larger one. "
    "The larger model checks several tokens in one pass. We show that the text stays the same while it is "
    "written faster, and we release our code.",
    "Tom buys 3 books for $7 each and 2 pens for $1.50 each. He pays with a $50 bill. What is his change?",
)
