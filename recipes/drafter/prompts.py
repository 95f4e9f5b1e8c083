"""Prompts for the teacher: training rows of the tasks, and requests made from word lists of our own."""

import random
import sys

from benchmarks.support.task_prompts import seen

_TOPICS = """
photosynthesis; the water cycle; black holes; the French Revolution; volcanoes; public libraries;
bicycles; coral reefs; the human heart; electric cars; inflation; the Roman Empire; bees; chess; jazz;
sourdough bread; vaccines; the Great Wall of China; machine learning; gravity; earthquakes; time
management; healthy sleep; meditation; recycling; solar panels; the stock market; democracy; tides; the
Silk Road; dinosaurs; antibiotics; the printing press; deserts; penguins; urban gardening; first aid;
budgeting; job interviews; public speaking; learning a language; camping; knitting; photography; running
a marathon; vegetarian cooking; raising a puppy; home repairs; saving water; email etiquette; remote
work; teamwork; climate change; the moon landing; DNA; the immune system; rainforests; black tea;
coffee; opera; impressionism; Shakespeare; probability; prime numbers; fractions; the Pythagorean
theorem; algebra; statistics; robots; the internet; passwords; databases; web browsers; operating
systems; version control; sorting algorithms; encryption; rivers; mountains; glaciers; insects; whales;
owls; horses; elephants; trees; mushrooms; the periodic table; water; batteries; magnets; light; sound;
weather forecasts; hurricanes; maps; the compass; railways; bridges; airplanes; ships; marketing;
customer service; negotiation; leadership; stress; friendship; kindness; honesty; ancient Egypt; the
Olympics; football; swimming; yoga; dance; poetry; the violin; museums; architecture; fashion;
festivals; breakfast; soup; fruit; teaching children to read; exams; note-taking; essay writing; small
businesses; renewable energy; nutrition; exercise
"""
_HEROES = """
a shy dragon; an old lighthouse keeper; a girl who collects maps; two brothers; a lost kitten; a young
baker; a robot gardener; a retired pilot; a curious fox; a village doctor; a boy with a wooden flute; a
tired queen; a clockmaker; a student on her first day; an honest thief; a fisherman; a talking tree; a
detective; an astronaut; a librarian
"""
_PLACES = """
in a snowy village; by the sea; on a small island; in a big city; in a forest; at a railway station; on
the moon; in a quiet library; in the desert; in a castle; at school; on a farm; in a rainy harbour; in
the mountains; on a spaceship
"""
_EVENTS = """
who finds a strange key; who must tell the truth; who makes a new friend; who gets lost; who solves a
mystery; who learns to be brave; who receives a letter; who saves the town; who loses something precious;
who keeps a promise
"""
_PEOPLE = """
a colleague; my teacher; my landlord; a customer; my grandmother; a new neighbour; my manager; an old
friend; the city council; a hotel; a university; my team; a supplier; the editor of a newspaper; my
cousin
"""
_REASONS = """
to thank them for their help; to ask for a day off; to apologise for a mistake; to invite them to a
party; to complain about noise; to ask for a recommendation; to cancel a meeting; to congratulate them;
to ask about prices; to explain a delay; to introduce myself; to propose a new idea; to say goodbye; to
offer help; to order books
"""
_THINGS = """
a list of numbers; a string; a dictionary; a list of words; two sorted lists; a matrix; a date; a CSV
file; a sentence; a binary tree; a linked list; a stack; a queue; a set of integers; an array; a text
file; a JSON object
"""
_TASKS = """
reverses it; removes duplicates; counts its elements; finds the largest value; sorts it; checks whether
it is empty; prints each item; finds the median; computes the average; converts it to upper case; merges
duplicates; returns the first n items; validates the input; splits it into chunks; finds the most common
element; sums it up
"""
_LANGUAGES = """
Python; Python; Python; JavaScript; Java; C; C++; Go; Rust; SQL; Bash; HTML; TypeScript; Kotlin; Swift
"""
_WORDS = """
happy; quickly; improve; journey; bright; ocean; gentle; courage; window; market; harvest; silent;
river; careful; honest; gather; support; modern; reason; balance; simple; strong; clever; summer;
bridge; letter; garden
"""
_AUDIENCES = """
a child; a beginner; a student; an expert; my grandfather; a busy manager; a curious teenager
"""
_STYLES = """
a short paragraph; three sentences; simple words; bullet points; a table; one sentence; a dialogue; a
poem; steps; an essay with a conclusion; an example; a letter; a summary and a list
"""

_FORMS = (
    "Write a short story about {hero} {event}.",
    "Tell me a story {place} about {hero} {event}.",
    "Write a story that begins {place}.",
    "Give me {number} tips for {topic}.",
    "List {number} facts about {topic}.",
    "What are {number} advantages and disadvantages of {topic}?",
    "Explain {topic} to {audience}.",
    "Explain {topic} in {style}.",
    "What is the history of {topic}?",
    "Why is {topic} important?",
    "How does {topic} work?",
    "What should I know about {topic} before I start?",
    "Compare {topic} and {topic2}.",
    "Write an email to {person} {reason}.",
    "Write a letter to {person} {reason}.",
    "Write a short message to {person} {reason}.",
    "Write a {language} function that takes {thing} and {task}.",
    "Write a {language} program that reads {thing} and {task}. Explain the code.",
    "How do I work with {thing} in {language}?",
    "Here is my {language} code for {thing}. It is slow. How can I make it faster?",
    "Write unit tests in Python for a function that takes {thing} and {task}.",
    "Write a poem about {topic}.",
    "Write an essay about {topic}.",
    "Make a plan for one week to learn about {topic}.",
    "Use the words {word}, {word2} and {word3} in a paragraph.",
    "Give me {number} synonyms of {word} and a sentence with each.",
    "Write a dialogue between {hero} and {hero2} about {topic}.",
    "Can you help me with {topic}?",
    "I want to write about {topic} for {audience}. Give me an outline.",
    "Write a blog post about {topic} for {audience}.",
    "Write a product description for something to do with {topic}.",
    "What are common mistakes with {topic}?",
    "Ask me {number} quiz questions about {topic} and give the answers.",
    "Which is better for {audience}: {topic} or {topic2}?",
    "Rewrite this sentence in {style}: {topic} matters to {hero}.",
    "Is {topic} good for {audience}? Answer in {style}.",
)


def word_list_prompt(order: random.Random) -> str:
    """A request made from one form and the word lists."""

    def one(words: str) -> str:
        return order.choice([word.strip().replace("\n", " ") for word in words.split(";")])

    return order.choice(_FORMS).format(
        hero=one(_HEROES),
        hero2=one(_HEROES),
        place=one(_PLACES),
        event=one(_EVENTS),
        number=order.choice(["three", "five", "5", "10", "seven", "some", "4"]),
        topic=one(_TOPICS),
        topic2=one(_TOPICS),
        audience=one(_AUDIENCES),
        style=one(_STYLES),
        person=one(_PEOPLE),
        reason=one(_REASONS),
        language=one(_LANGUAGES),
        thing=one(_THINGS),
        task=one(_TASKS),
        word=one(_WORDS),
        word2=one(_WORDS),
        word3=one(_WORDS),
    )


def task_prompts() -> list[str]:
    """Prompts of the training rows of GSM8K, MBPP and SciTLDR; no row that evaluation uses."""
    questions, programs, summaries = seen(sys.maxsize).values()
    return questions + programs * 2 + summaries
